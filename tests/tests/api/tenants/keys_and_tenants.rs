//! Tenants and keys.

use crate::world::{World, report_json, tenant_id, wait_until};
use reqwest::Method;
use serde_json::{Value, json};
use unslide_model::Scope;

#[tokio::test]
async fn an_operator_makes_a_tenant_and_its_first_key() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let made = world
        .post_json(
            "/v1/tenants",
            &operator,
            &json!({"id": "stark", "name": "Stark", "limits": {"upload_bytes": 7}}),
        )
        .await;
    let made = made.expect_status(201);
    assert_eq!(
        (&made["id"], &made["state"], &made["limits"]["upload_bytes"]),
        (&"stark".into(), &"active".into(), &7.into())
    );
    assert_eq!(made["announced"], false, "no relay runs in this test");
    world.post_json("/v1/tenants", &operator, &json!({"id": "stark"})).await.expect_problem(409, "conflict");
    for bad in [
        json!({"id": "Stark Industries"}),
        json!({}),
        json!({"id": "ab", "nam": "x"}),
        json!({"id": "ab", "name": ""}),
        json!({"id": "ab", "name": "a\0b"}),
        json!({"id": "ab", "name": "a\u{85}b"}),
    ] {
        world.post_json("/v1/tenants", &operator, &bad).await.expect_problem(400, "invalid-body");
    }

    let new = json!({"name": "first", "scopes": ["tenant:admin", "symbols:read"]});
    let key = world.post_json("/v1/tenants/stark/keys", &operator, &new).await.expect_status(201);
    let admin = key["text"].as_str().unwrap();
    let listed = world.get("/v1/keys", admin).await.expect_status(200);
    assert_eq!(listed["items"][0]["id"], key["id"]);
    assert!(!listed.to_string().contains(admin), "the text is shown once");
    world.post_json("/v1/tenants/nobody/keys", &operator, &new).await.expect_problem(404, "not-found");
    world.post_json("/v1/tenants/No/keys", &operator, &new).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

#[tokio::test]
async fn a_key_over_the_limit_is_refused_and_the_answer_says_what_to_do() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let keys = format!(
        "INSERT INTO keys (id, tenant, kind, name, prefix, key_hash, created_at)
         SELECT gen_random_uuid(), 'acme', 'api', 'many', lpad(n::text, 8, '0'), decode(repeat('00', 32), 'hex'), now()
         FROM generate_series(1, {}) AS n",
        unslide_store::keys::MOST_IN_FORCE
    );
    world.execute(&keys).await;
    let new = json!({"name": "one", "scopes": ["tenant:admin"]});
    let refused = world.post_json("/v1/keys", &admin, &new).await.expect_problem(409, "limit-reached");
    assert_eq!(refused, "Key limit reached for tenant acme: 1000 keys are in force. Revoke one first.");
    world.stop().await;
}

#[tokio::test]
async fn a_preset_gives_a_key_the_scopes_of_its_purpose() {
    let world = World::start().await;
    let admin = world.create_master_key("acme").await;
    let reader = json!({"name": "dashboard", "preset": "reader"});
    let made = world.post_json("/v1/keys", &admin, &reader).await.expect_status(201);
    assert_eq!(made["scopes"], json!(["symbols:read", "reports:read"]));
    let app = json!({"name": "shop", "preset": "app", "app": "com.example.shop"});
    let made = world.post_json("/v1/keys", &admin, &app).await.expect_status(201);
    assert_eq!((&made["scopes"], &made["app"]), (&json!(["reports:write"]), &"com.example.shop".into()));
    for (wrong, why) in [
        (json!({"name": "x", "preset": "app"}), "app: a key with the preset app is for one app"),
        (json!({"name": "x", "preset": "reader", "scopes": ["reports:read"]}), "either scopes or a preset"),
        (json!({"name": "x"}), "either scopes or a preset"),
        (json!({"name": "x", "preset": "root"}), "root"),
    ] {
        let refused = world.post_json("/v1/keys", &admin, &wrong).await.expect_problem(400, "invalid-body");
        assert!(refused.contains(why), "{refused}");
    }
    let triager = json!({"name": "x", "preset": "triager"});
    let narrow = world.create_key("acme", &[Scope::TenantAdmin, Scope::ReportsRead]).await;
    world.post_json("/v1/keys", &narrow, &triager).await.expect_problem(403, "insufficient-scope");
    world.stop().await;
}

#[tokio::test]
async fn tenants_are_listed_in_pages() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator]).await;
    let slugs = |page: &Value| {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let first = world.get("/v1/tenants?limit=1", &operator).await.expect_status(200);
    assert_eq!(slugs(&first), ["acme"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second =
        world.get(&format!("/v1/tenants?limit=1&cursor={cursor}"), &operator).await.expect_status(200);
    assert_eq!((slugs(&second), second.get("next_cursor")), (vec!["umbrella".to_owned()], None));
    for query in ["limit=0", "limit=501", "limit=x", "cursor=00", "cursor=zz"] {
        world.get(&format!("/v1/tenants?{query}"), &operator).await.expect_problem(400, "invalid-parameter");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_key_is_made_used_and_revoked() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin, Scope::SymbolsRead]).await;
    let new = json!({"name": "pipeline", "scopes": ["symbols:read"], "expires_at": "2999-01-01T00:00:00Z"});
    let made = world.post_json("/v1/keys", &admin, &new).await.expect_status(201);
    let (id, text) = (made["id"].as_str().unwrap(), made["text"].as_str().unwrap());
    assert!(text.starts_with(&format!("unslide_{}_", made["prefix"].as_str().unwrap())));
    world.get("/v1/symbols", text).await.expect_status(200);
    let other = world.create_master_key("umbrella").await;
    world.delete(&format!("/v1/keys/{id}"), &other).await.expect_problem(404, "not-found");
    world.delete(&format!("/v1/keys/{id}"), &admin).await.expect_status(200);
    world.delete(&format!("/v1/keys/{id}"), &admin).await.expect_status(200);
    world.get("/v1/symbols", text).await.expect_problem(401, "unauthorized");
    world.delete("/v1/keys/7", &admin).await.expect_problem(400, "invalid-parameter");
    world.stop().await;
}

/// Proves: keys
#[tokio::test]
async fn a_key_gives_no_more_than_it_may() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin, Scope::ReportsRead, Scope::Operator]).await;
    let operator = json!({"name": "x", "scopes": ["operator"]});
    world.post_json("/v1/keys", &admin, &operator).await.expect_problem(403, "insufficient-scope");
    // What it does not have it cannot give, alone or with others.
    for scopes in [json!(["reports:write"]), json!(["reports:read", "symbols:write"])] {
        let more = json!({"name": "x", "scopes": scopes});
        let detail =
            world.post_json("/v1/keys", &admin, &more).await.expect_problem(403, "insufficient-scope");
        assert!(detail.contains(":write"), "{detail}");
    }
    let one_app =
        world.key_for("acme", &[Scope::TenantAdmin, Scope::ReportsRead], Some("com.example.shop")).await;
    let wide = json!({"name": "x", "scopes": ["reports:read"]});
    world.post_json("/v1/keys", &one_app, &wide).await.expect_problem(403, "insufficient-scope");
    let other = json!({"name": "x", "scopes": ["reports:read"], "app": "com.example.other"});
    world.post_json("/v1/keys", &one_app, &other).await.expect_problem(403, "insufficient-scope");
    let same = json!({"name": "x", "scopes": ["reports:read"], "app": "com.example.shop"});
    world.post_json("/v1/keys", &one_app, &same).await.expect_status(201);
    // It sees and revokes the keys of its app, and none that speak for more.
    let seen = world.get("/v1/keys", &one_app).await.expect_status(200);
    assert_eq!(seen["items"].as_array().unwrap().len(), 2, "{seen}");
    let all = world.get("/v1/keys", &admin).await.expect_status(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 3);
    let foreign = format!("/v1/keys/{}", all["items"][0]["id"].as_str().unwrap());
    world.delete(&foreign, &one_app).await.expect_problem(404, "not-found");
    let operators = world.create_key("umbrella", &[Scope::Operator]).await;
    let narrow = json!({"name": "x", "scopes": ["operator"], "app": "com.example.shop"});
    world.post_json("/v1/tenants/acme/keys", &operators, &narrow).await.expect_problem(400, "invalid-body");
    // Nor for longer than it lives itself, also where an operator asks.
    let end = world.host.clock.now() + time::Duration::HOUR;
    let ends = |seconds: i64| {
        let end = end + time::Duration::seconds(seconds);
        serde_json::Value::from(end.format(&time::format_description::well_known::Rfc3339).unwrap())
    };
    for (of, path) in [("acme", "/v1/keys"), ("umbrella", "/v1/tenants/acme/keys")] {
        let short = crate::cases::key_of(&Scope::ALL, None, Some(end));
        let (_, short) = world.make_key(of, &short).await;
        for longer in [serde_json::Value::Null, ends(1)] {
            let new = json!({"name": "x", "scopes": ["reports:read"], "expires_at": longer});
            let detail = world.post_json(path, &short, &new).await.expect_problem(403, "insufficient-scope");
            assert!(detail.starts_with("expires_at: the key expires at "), "{detail}");
        }
        for shorter in [ends(0), ends(-1)] {
            let new = json!({"name": "x", "scopes": ["reports:read"], "expires_at": shorter});
            world.post_json(path, &short, &new).await.expect_status(201);
        }
    }
    for bad in [
        json!({"name": "a\0b", "scopes": ["reports:read"]}),
        json!({"name": "a\u{1b}[31mb", "scopes": ["reports:read"]}),
        json!({"name": "a\nb", "scopes": ["reports:read"]}),
        json!({"name": "x", "scopes": ["reports:read"], "app": "a\0b"}),
        json!({"name": "", "scopes": ["reports:read"]}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["reports:everything"]}),
        json!({"name": "x", "scopes": ["reports:read"], "expires_at": "2001-01-01T00:00:00Z"}),
        json!({"name": "x", "scopes": ["reports:read"], "app": ""}),
    ] {
        world.post_json("/v1/keys", &admin, &bad).await.expect_problem(400, "invalid-body");
    }
    world.stop().await;
}

/// Whoever revoked it: a program beside the api, or another process of it.
/// Proves: keys
#[tokio::test]
async fn a_key_that_is_revoked_elsewhere_is_refused() {
    let world = World::start().await;
    let (id, key) = world.make_key("acme", &crate::cases::key_of(&[Scope::SymbolsRead], None, None)).await;
    for _ in 0..3 {
        world.get("/v1/symbols", &key).await.expect_status(200);
    }
    let mut tx = world.store.tenant(&tenant_id("acme")).await.unwrap();
    assert!(unslide_store::keys::revoke_key(&mut tx, id, None).await.unwrap());
    tx.commit().await.unwrap();
    world.until_refused(&key).await;
    world.stop().await;
}

/// A key that was used lately goes on: its reports are taken, and what needs the database says so.
/// Proves: keys
#[tokio::test]
async fn a_key_goes_on_for_a_while_without_the_database() {
    let world = World::start().await;
    let [used, new] = [world.create_master_key("acme").await, world.create_master_key("acme").await];
    world.post_json("/v1/reports", &used, &report_json("1")).await.expect_status(202);
    world.let_connect(false).await;
    // After a second what is known of the key is not confirmed any more. Too short a pause fails nothing.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    world.post_json("/v1/reports", &used, &report_json("2")).await.expect_status(202);
    assert!(world.post_json("/v1/reports", &new, &report_json("3")).await.status.is_server_error());
    world.let_connect(true).await;
    world.stop().await;
}

/// Nothing of the answer tells a key that was never there from one that is over.
#[tokio::test]
async fn every_key_that_is_not_in_force_gets_the_same_answer() {
    let world = World::start().await;
    let admin = world.create_key("acme", &[Scope::TenantAdmin, Scope::SymbolsRead]).await;
    let made = world
        .post_json("/v1/keys", &admin, &json!({"name": "x", "scopes": ["symbols:read"]}))
        .await
        .expect_status(201);
    let revoked = made["text"].as_str().unwrap().to_owned();
    world.delete(&format!("/v1/keys/{}", made["id"].as_str().unwrap()), &admin).await.expect_status(200);
    let mut gone = world.store.tenant(&tenant_id("umbrella")).await.unwrap();
    let left = world.create_master_key("umbrella").await;
    let limits = unslide_store::tenants::QuotaLimits::default();
    unslide_store::tenants::change_tenant(
        &mut gone,
        "umbrella",
        unslide_store::tenants::TenantStanding::Deleted,
        &limits,
    )
    .await
    .unwrap();
    gone.commit().await.unwrap();
    let wrong =
        format!("{}{}", admin.get(..admin.len() - 1).unwrap(), if admin.ends_with('a') { 'b' } else { 'a' });
    let unknown = "unslide_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for key in ["", "x", unknown, &wrong, &revoked, &left] {
        let answer = world.get("/v1/symbols", key).await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"unslide\"");
        let mut body = answer.parse_json();
        body["request_id"] = "".into();
        answer.expect_problem(401, "unauthorized");
        let same = json!({"type": "/problems/unauthorized", "title": "A valid API key is needed", "status": 401, "request_id": ""});
        assert_eq!(body, same, "{key}");
    }
    let basic = world.request(Method::GET, "/v1/symbols", "").basic_auth("user", Some(&admin));
    world.send(basic).await.expect_problem(401, "unauthorized");
    world.stop().await;
}

/// A key that a scanner finds in a public place is one of ours, and whatever we make a scanner finds.
#[tokio::test]
async fn every_key_matches_the_expression_for_secret_scanners() {
    let security = include_str!("../../../../SECURITY.md");
    let expression = security.lines().find_map(|line| line.strip_prefix("    unslide_")).unwrap();
    // `[set]{length}` twice, with an underscore between: read without an engine for expressions.
    let parts: Vec<(String, usize)> = expression.split('_').map(class).collect();
    let fits = |key: &str| {
        let texts: Vec<&str> = key.strip_prefix("unslide_").unwrap().split('_').collect();
        texts.len() == parts.len()
            && texts.iter().zip(&parts).all(|(text, (set, length))| {
                text.len() == *length && text.chars().all(|digit| set.contains(digit))
            })
    };
    let world = World::start().await;
    for _ in 0..20 {
        let key = world.create_key("acme", &[Scope::ReportsWrite]).await;
        assert!(fits(&key), "{key} does not match {expression}");
    }
    world.stop().await;
}

/// A set such as `[a-c2-4x]{8}`: its characters and how many of them follow.
fn class(text: &str) -> (String, usize) {
    let (set, length) = text.strip_prefix('[').unwrap().split_once("]{").unwrap();
    let mut digits = String::new();
    let mut rest = set;
    while let Some(first) = rest.chars().next() {
        let range = rest.get(1..3).filter(|range| range.starts_with('-'));
        let last = range.map_or(first, |range| range.chars().nth(1).unwrap());
        digits.extend(first..=last);
        rest = rest.get(if range.is_some() { 3 } else { 1 }..).unwrap();
    }
    (digits, length.strip_suffix('}').unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_keys_use_is_noted() {
    let world = World::start().await;
    let (id, key) = {
        let new = unslide_store::keys::NewApiKey {
            name: "x".into(),
            scopes: vec![Scope::TenantAdmin],
            app: None,
            expires_at: None,
        };
        world.make_key("acme", &new).await
    };
    let is_noted = async || {
        let listed = world.get("/v1/keys", &key).await.expect_status(200);
        let listed = listed["items"].as_array().unwrap().iter().find(|k| k["id"] == id.to_string());
        listed.unwrap()["last_used_at"].is_string()
    };
    assert!(wait_until(is_noted).await);
    world.stop().await;
}

/// A leaked key may have made others: the answer to its revocation names them, and they can be revoked too.
/// Proves: keys
#[tokio::test]
async fn a_key_is_revoked_with_all_that_descend_from_it_if_asked() {
    let world = World::start().await;
    let operator = world.create_key("umbrella", &[Scope::Operator, Scope::TenantAdmin]).await;
    let new = json!({"name": "x", "scopes": ["tenant:admin"]});
    let make = async |path: &str, key: &str| {
        let made = world.post_json(path, key, &new).await.expect_status(201);
        (
            made["id"].as_str().unwrap().to_owned(),
            made["text"].as_str().unwrap().to_owned(),
            made["made_by"].clone(),
        )
    };
    let admin = world.create_key("acme", &[Scope::TenantAdmin]).await;
    let (child_id, child, _) = make("/v1/keys", &admin).await;
    let (_, grandchild, maker) = make("/v1/keys", &child).await;
    let (_, sibling, _) = make("/v1/keys", &admin).await;
    assert_eq!(maker, child_id.as_str());
    let listed = world.get("/v1/keys", &admin).await.expect_status(200);
    let makers: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|key| &key["made_by"]).collect();
    assert_eq!((makers[0], makers[2]), (&Value::Null, &child_id.as_str().into()));
    // Alone: what it made stays in force, and the answer says so.
    let path = format!("/v1/keys/{child_id}");
    let alone = world.delete(&path, &admin).await.expect_status(200);
    assert_eq!(alone, json!({"id": child_id, "descendants_revoked": 0, "descendants_in_force": 1}));
    world.get("/v1/keys", &child).await.expect_problem(401, "unauthorized");
    world.get("/v1/keys", &grandchild).await.expect_status(200);
    let cascade = world.delete(&format!("{path}?cascade=true"), &admin).await.expect_status(200);
    assert_eq!(cascade, json!({"id": child_id, "descendants_revoked": 1, "descendants_in_force": 0}));
    world.get("/v1/keys", &grandchild).await.expect_problem(401, "unauthorized");
    world.get("/v1/keys", &sibling).await.expect_status(200);
    world.delete(&format!("{path}?cascade=perhaps"), &admin).await.expect_problem(400, "invalid-parameter");
    // An operator's key makes keys of other tenants: only operators see and revoke those.
    let (leaked_id, leaked, _) = {
        let new = json!({"name": "x", "scopes": ["operator", "tenant:admin"]});
        let made = world.post_json("/v1/tenants/umbrella/keys", &operator, &new).await.expect_status(201);
        (made["id"].as_str().unwrap().to_owned(), made["text"].as_str().unwrap().to_owned(), ())
    };
    let (_, foreign, maker) = make("/v1/tenants/acme/keys", &leaked).await;
    assert_eq!(maker, leaked_id.as_str());
    let (_, below, _) = make("/v1/keys", &foreign).await;
    let own_admin = world.create_key("umbrella", &[Scope::TenantAdmin]).await;
    let path = format!("/v1/keys/{leaked_id}?cascade=true");
    let seen = world.delete(&path, &own_admin).await.expect_status(200);
    assert_eq!((&seen["descendants_revoked"], &seen["descendants_in_force"]), (&0.into(), &0.into()));
    world.get("/v1/keys", &below).await.expect_status(200);
    let path = format!("/v1/tenants/umbrella/keys/{leaked_id}");
    assert_eq!(world.delete(&path, &operator).await.expect_status(200)["descendants_in_force"], 2);
    assert_eq!(
        world.delete(&format!("{path}?cascade=true"), &operator).await.expect_status(200)["descendants_revoked"],
        2
    );
    for key in [&foreign, &below] {
        world.get("/v1/keys", key).await.expect_problem(401, "unauthorized");
    }
    let noted = "SELECT count(*) FROM audit_log WHERE tenant = 'acme' AND detail ? 'descends_from'";
    assert_eq!(world.number(noted).await, 3);
    world.stop().await;
}
