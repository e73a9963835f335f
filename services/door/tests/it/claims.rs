//! The name of a new tenant is claimed in the directory.

use crate::test_door::{make_directory, place_tenant};
use serde_json::json;
use unslide_feature::for_api;
use unslide_store::cells::CellSettings;
use unslide_world::{World, tenant_id};

#[tokio::test]
async fn a_cell_creates_no_tenant_of_a_name_that_another_one_has() {
    let directory = make_directory(&[("eu", "http://eu"), ("us", "http://us")], &[]).await;
    place_tenant(&directory, &tenant_id("wayne"), "us").await;
    let world = World::start(for_api(&[]), |config| {
        config.cells = CellSettings {
            name: "eu".to_owned(),
            directory: directory.postgres.url.clone(),
            ..CellSettings::default()
        };
        assert_eq!(config.validate(), []);
    })
    .await;
    let operator = world.create_master_key("acme").await;
    let create = async |id: &str| world.post_json("/v1/tenants", &operator, &json!({"id": id})).await;
    create("stark").await.expect_status(201);
    let cell_of_stark = "SELECT cell FROM cell_tenants WHERE slug = 'stark'";
    assert_eq!(directory.text(cell_of_stark).await, "eu");
    assert!(create("stark").await.expect_problem(409, "conflict").contains("the slug stark is taken"));
    let taken = create("wayne").await.expect_problem(409, "conflict");
    assert_eq!(taken, "the slug wayne is taken, in the cell us");
    assert_eq!(world.number("SELECT count(*) FROM tenants WHERE slug = 'wayne'").await, 0);
    world.stop().await;
    directory.stop(false).await;
}
