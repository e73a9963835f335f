//! Commits that fix groups: `Fixes SHOP-1A2B` on the default branch.

use crate::tickets::played::Product;
use crate::tickets::shop::Shop;
use serde_json::{Value, json};
use unslide_model::{Clock, SystemClock};

fn push(product: Product, branch: &str, revision: &str, message: &str, at: &str) -> Value {
    let commits =
        json!([{"id": "0000", "message": "Other"}, {"id": revision, "message": message, "timestamp": at}]);
    let ref_name = format!("refs/heads/{branch}");
    match product {
        Product::Gitlab => json!({"object_kind": "push", "ref": ref_name, "commits": commits,
            "project": {"path_with_namespace": "example/shop", "default_branch": "main"}}),
        _ => json!({"ref": ref_name, "commits": commits,
            "repository": {"full_name": "example/shop", "default_branch": "main"}}),
    }
}

fn now() -> String {
    SystemClock.now().format(&time::format_description::well_known::Rfc3339).unwrap()
}

#[tokio::test]
async fn a_commit_on_the_default_branch_resolves_its_groups_once() {
    for product in [Product::Github, Product::Gitlab] {
        let shop = Shop::open(product).await;
        let group = shop.crash(1, "1.0").await;
        let other = shop.crash(2, "1.0").await;
        let id = shop.read_group(&group).await["short_id"].as_str().unwrap().to_owned();
        let status = async |group: &str| shop.read_group(group).await["status"].as_str().unwrap().to_owned();
        let fixes = format!("Keep the cart\n\nFixes {}, SHOP-0000", id.to_lowercase());
        // On another branch, without a keyword, and without a signature.
        for (n, body) in [
            push(product, "topic", "a1", &fixes, &now()),
            push(product, "main", "a2", &format!("See {id}"), &now()),
        ]
        .iter()
        .enumerate()
        {
            let answer = shop.send_hook(&format!("n{n}"), "push", body).await;
            assert_eq!(answer.status, 202, "{}", answer.text);
        }
        let merged = push(product, "main", "a3", &fixes, &now());
        shop.send_signed("another-secret-of-the-test", "f", "push", &merged)
            .await
            .expect_problem(401, "unsigned-hook");
        assert_eq!(status(&group).await, "open");
        shop.send_hook("m1", "push", &merged).await;
        let resolved = shop.read_group(&group).await;
        assert_eq!(
            (&resolved["status"], &resolved["resolved_after"]),
            (&json!("resolved"), &json!("1.0")),
            "{product:?}"
        );
        assert_eq!(status(&other).await, "open");
        // It came back: neither the same delivery, nor the same commit, nor an older one says that it is fixed.
        shop.crash(4, "2.0").await;
        assert_eq!(status(&group).await, "regressed");
        shop.send_hook("m1", "push", &merged).await;
        shop.send_hook("m2", "push", &merged).await;
        let late = push(product, "main", "a4", &fixes, "2020-01-01T00:00:00Z");
        shop.send_hook("m3", "push", &late).await;
        assert_eq!(status(&group).await, "regressed");
        shop.send_hook("m4", "push", &push(product, "main", "a5", &fixes, &now())).await;
        assert_eq!(status(&group).await, "resolved");
        // A commit that names a group that was merged fixes the one that counts its reports.
        let path = format!("/v1/groups/{other}/merge");
        shop.world.post_json(&path, &shop.key, &json!({"groups": [group]})).await.expect_status(200);
        shop.send_hook("m5", "push", &push(product, "main", "a6", &fixes, &now())).await;
        assert_eq!(status(&other).await, "resolved");
        shop.world.stop().await;
    }
}
