//! An S3 endpoint in this process, over a temporary folder.

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use unslide_artifacts::Settings;
use unslide_model::Secret;

pub struct S3Server {
    pub settings: Settings,
    _folder: TempDir,
    server: JoinHandle<()>,
}

impl S3Server {
    pub async fn start() -> S3Server {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("unslide")).unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder.path()).unwrap());
        service.set_auth(SimpleAuth::from_single("access", "secret"));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    http1::Builder::new().serve_connection(TokioIo::new(socket), service).await.ok();
                });
            }
        });
        let settings = Settings {
            endpoint: Some(endpoint),
            bucket: "unslide".into(),
            access_key: Some("access".into()),
            secret_key: Secret::new("secret"),
            path_style: true,
            ..Settings::default()
        };
        S3Server { settings, _folder: folder, server }
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.server.abort();
    }
}
