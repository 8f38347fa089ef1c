//! x
#![allow(missing_docs, clippy::all)]
include!("figures_types.inc");
fn cpu() -> f64 { let t = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap(); t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9 }
fn main() {
    let dir = tempfile::tempdir().unwrap();
    let places = || Places { logs: dir.path().join("logs"), state: dir.path().join("state"), cache: dir.path().join("cache") };
    let log = Log::create(places(), Options::new(By::Coordinator), "figures").unwrap();
    for id in 0..100 {
        log.lock(WAIT).unwrap().append(Utc::now(), (0..1000).map(|at| draft(id * 1000 + at)).collect()).unwrap();
    }
    for id in 0..100_000 { log.lock(WAIT).unwrap().append(Utc::now(), vec![draft(id)]).unwrap(); }
    for _ in 0..3 {
        let mut cursor = log.cursor_start().unwrap();
        let (w, c) = (Instant::now(), cpu());
        let r = log.read_new(&mut cursor, &mut |_| {}).unwrap();
        println!("{} lines: wall {:.0} ns cpu {:.0} ns", r.lines, w.elapsed().as_secs_f64() * 1e9 / r.lines as f64, (cpu() - c) * 1e9 / r.lines as f64);
    }
    let (w, c) = (Instant::now(), cpu());
    for id in 0..20_000 { log.lock(WAIT).unwrap().append(Utc::now(), vec![draft(id)]).unwrap(); }
    println!("append wall {:.0} ns cpu {:.0} ns", w.elapsed().as_secs_f64() * 1e9 / 2e4, (cpu() - c) * 1e9 / 2e4);
    let (w, c) = (Instant::now(), cpu());
    let mut g = log.lock(WAIT).unwrap();
    for id in 0..20_000 { g.append(Utc::now(), vec![draft(id)]).unwrap(); }
    println!("append same guard wall {:.0} ns cpu {:.0} ns", w.elapsed().as_secs_f64() * 1e9 / 2e4, (cpu() - c) * 1e9 / 2e4);
}
