//! Runs the model stub by hand: prints its URL, then one JSON line for each request that was answered, until
//! standard input ends.

use std::io::{self, Read, Write};
use std::time::Duration;

use team_testkit::stub::ModelStub;

fn main() -> io::Result<()> {
    let stub = ModelStub::start()?;
    let mut out = io::stdout();
    writeln!(out, "{}", stub.url())?;
    out.flush()?;
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        io::copy(&mut io::stdin().by_ref(), &mut io::sink()).ok();
        ended.send(()).ok();
    });
    let mut shown = 0;
    while end.try_recv().is_err() {
        let next =
            stub.wait_for(|it| it.number == shown + 1 && it.outcome.is_some(), Duration::from_millis(200));
        let Ok(request) = next else { continue };
        shown += 1;
        writeln!(out, "{}", request.to_json())?;
        out.flush()?;
    }
    Ok(())
}
