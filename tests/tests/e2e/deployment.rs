//! What the deployment files say and the binary answers.

use unslide_tests::binary;

#[test]
fn everything_wrong_with_a_configuration_is_said_at_once() {
    let done = binary::command(&["config", "check"])
        .env("UNSLIDE_POSTGRES__URL", "mysql://nobody@nowhere/x")
        .env("UNSLIDE_OBJECTS__BUCKET", "X")
        .env("UNSLIDE_API__LISTEN", "not an address")
        .env("UNSLIDE_KAFKA__BOOTSTRAPS", "a typo")
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert_ne!(done.status.code(), Some(0), "{text}");
    for part in ["postgres.url", "objects.bucket", "api.listen", "kafka.bootstraps"] {
        assert!(text.to_lowercase().contains(part), "{part} is not named:\n{text}");
    }
}
