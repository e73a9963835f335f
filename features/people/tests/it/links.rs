//! Ways to a sign-in and back: pages to return to, several tabs, and links of others.

use crate::people::person::{Person, put_settings, settings_for, start_world};
use crate::people::provider::Provider;
use reqwest::StatusCode;

#[tokio::test]
async fn a_sign_in_leads_back_to_the_page_that_was_asked_for() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    let sent = robin.open_page("/console/groups?app=x").await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER);
    let page = robin.open_page(&sent.location).await;
    assert!(page.text.contains("href=\"/console/sso?next=%2Fconsole%2Fgroups%3Fapp%3Dx\""), "{}", page.text);
    let form = robin.open_page("/console/sso?next=%2Fconsole%2Fgroups%3Fapp%3Dx").await;
    assert!(form.text.contains("name=\"next\" value=\"/console/groups?app=x\""), "{}", form.text);
    let begin = robin.open_page("/console/sso?tenant=acme&next=%2Fconsole%2Fgroups%3Fapp%3Dx").await;
    assert!(
        begin.text.contains("url=/console/sso/acme?next=%2Fconsole%2Fgroups%3Fapp%3Dx"),
        "{}",
        begin.text
    );
    for (next, end) in [
        ("?next=%2Fconsole%2Fgroups%3Fapp%3Dx", "url=/console/groups?app=x\""),
        ("", "url=/console\""),
        ("?next=https%3A%2F%2Fevil.example", "url=/console\""),
        ("?next=%2Fconsole%2Fsso%2Fevil", "url=/console\""),
    ] {
        let asked = robin.begin_with(&provider, next).await;
        provider.expect_code(provider.token_for(&asked, "robin", &["crash-team"]));
        let opened = robin.return_with_code(&asked["state"]).await;
        assert!(opened.text.contains(end), "{next}: {}", opened.text);
    }
    // The browser remembers the tenant.
    let form = robin.open_page("/console/sso").await;
    assert!(form.text.contains("value=\"acme\""), "{}", form.text);
    world.stop().await;
}

#[tokio::test]
async fn several_tabs_sign_in_and_the_session_of_before_ends() {
    let provider = Provider::start().await;
    let world = start_world(&[&provider]).await;
    let admin = world.create_master_key("acme").await;
    put_settings(&world, &admin, &settings_for(&provider)).await.expect_status(200);
    let mut robin = Person::new(&world, "acme");
    let tabs = [robin.begin_sign_in(&provider).await, robin.begin_sign_in(&provider).await];
    for asked in &tabs {
        provider.expect_code(provider.token_for(asked, "robin", &["crash-team"]));
        // Browsers do not send the session when the provider leads back.
        robin.comes_from = "cross-site";
        let opened = robin.return_with_code(&asked["state"]).await;
        assert_eq!(opened.status, StatusCode::OK, "{}", opened.text);
        robin.comes_from = "";
    }
    let mut before = robin.copy_session();
    assert!(!before.is_signed_out().await);
    let asked = robin.begin_sign_in(&provider).await;
    provider.expect_code(provider.token_for(&asked, "robin", &["crash-team"]));
    robin.comes_from = "cross-site";
    assert_eq!(robin.return_with_code(&asked["state"]).await.status, StatusCode::OK);
    robin.comes_from = "";
    assert!(!robin.is_signed_out().await);
    assert!(before.is_signed_out().await, "the session of before has ended");
    for _ in 0..9 {
        robin.begin_sign_in(&provider).await;
    }
    let begun = robin.list_cookies().iter().filter(|name| name.contains("sign_in")).count();
    assert_eq!(begun, 5, "{:?}", robin.list_cookies());
    world.stop().await;
}

#[tokio::test]
async fn a_link_of_another_site_signs_no_one_in_without_a_question() {
    let (provider, evil) = (Provider::start().await, Provider::start().await);
    let world = start_world(&[&provider, &evil]).await;
    for (tenant, own) in [("acme", &provider), ("umbrella", &evil)] {
        let admin = world.create_master_key(tenant).await;
        put_settings(&world, &admin, &settings_for(own)).await.expect_status(200);
    }
    let mut robin = Person::new(&world, "umbrella");
    for site in ["cross-site", "same-site", "none"] {
        robin.comes_from = site;
        let asked = robin.open_page("/console/sso/umbrella?next=/console/groups").await;
        assert_eq!((asked.status, asked.location.as_str()), (StatusCode::OK, ""), "{site}: {}", asked.text);
        assert!(asked.text.contains("Sign in to umbrella?"), "{site}: {}", asked.text);
        assert!(robin.list_cookies().is_empty(), "{site}: {:?}", robin.list_cookies());
        let form = robin.open_page("/console/sso?tenant=umbrella").await;
        assert!(!form.text.contains("http-equiv"), "{site}: {}", form.text);
        assert!(form.text.contains("value=\"umbrella\""), "{site}: {}", form.text);
    }
    // Who presses the button goes on, by a page: a form may not lead to another host.
    let pressed = robin.send_form("/console/sso/umbrella", &[("next", "/console/groups")]).await;
    assert!(pressed.text.contains(&format!("url={}/authorize?", evil.issuer)), "{}", pressed.text);
    assert_eq!(robin.list_cookies().len(), 1);
    // A console's own page begins at once, unless the visitor is signed in elsewhere.
    let mut robin = Person::new(&world, "acme");
    robin.comes_from = "same-origin";
    assert_eq!(robin.sign_in(&provider, "robin", &["crash-team"]).await.status, StatusCode::OK);
    let asked = robin.open_page("/console/sso/umbrella").await;
    assert!(asked.text.contains("You are signed in to <b>acme</b>"), "{}", asked.text);
    assert!(!robin.is_signed_out().await);
    // A bookmark of the tenant of the last sign-in begins at once.
    robin.comes_from = "none";
    assert_eq!(robin.open_page("/console/sso/acme").await.status, StatusCode::SEE_OTHER);
    world.stop().await;
}
