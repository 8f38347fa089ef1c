//! The real programs can be had in the pinned versions, or the run says that they cannot.

use team_testkit::real;

#[test]
fn the_real_claude_is_installed_once_and_says_the_pinned_version() {
    let Some(first) = real::client_or_skip("claude") else { return };
    let second = real::client("claude").unwrap();
    assert_eq!(first, second);
    assert_eq!(first.version, real::pins()["claude"].version);
}

#[test]
#[ignore = "installs several hundred megabytes"]
fn every_pinned_program_can_be_installed_and_says_its_version() {
    for name in real::pins().keys() {
        let client = real::client(name);
        assert!(client.is_ok(), "{client:?}");
    }
}
