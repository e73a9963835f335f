//! A router of operations, each with its part of the OpenAPI document.
//!
//! The parts are built when the document is. An api that nobody asks for its document builds none, and a process that is
//! no api only makes the routes.

use crate::state::Api;
use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, Route};
use std::convert::Infallible;
use std::sync::Arc;
use tower::{Layer, Service};
use utoipa::__dev::{SchemaReferences, Tags};
use utoipa::Path;
use utoipa::openapi::path::Paths;
use utoipa::openapi::{Components, HttpMethod, OpenApi, OpenApiBuilder};

/// Builds the part of one operation, or of several.
type BuildPart = Arc<dyn Fn() -> OpenApi + Send + Sync>;

/// Routes with their parts of the OpenAPI document.
#[derive(Clone, Default)]
pub struct OperationRouter {
    router: Router<Api>,
    parts: Vec<BuildPart>,
}

/// The operations of one path, as [`routes`](crate::routes) lists them.
#[derive(Default)]
pub struct PathOperations {
    path: String,
    methods: MethodRouter<Api>,
    parts: Vec<BuildPart>,
}

/// Lists the operations of one path by their functions, each with its attribute `utoipa::path`.
#[macro_export]
macro_rules! routes {
    (@documentation [$($before:ident)*] $last:ident) => {
        $crate::paste! { $($before ::)* [<__path_ $last>] }
    };
    (@documentation [$($before:ident)*] $next:ident $($rest:ident)+) => {
        $crate::routes!(@documentation [$($before)* $next] $($rest)+)
    };
    ($($($name:ident)::+),+ $(,)?) => {
        $crate::PathOperations::default()
            $(.with_operation::<$crate::routes!(@documentation [] $($name)+), _, _>($($name)::+))+
    };
}

impl PathOperations {
    /// Adds the operation that `Documentation` describes.
    #[must_use]
    pub fn with_operation<Documentation, H, T>(mut self, handler: H) -> PathOperations
    where
        Documentation: Path + Tags<'static> + SchemaReferences + 'static,
        H: Handler<T, Api>,
        T: 'static,
    {
        self.path = Documentation::path();
        let methods = Documentation::methods();
        if let Some(filter) = methods.iter().map(filter_method).reduce(MethodFilter::or) {
            self.methods = self.methods.on(filter, handler);
        }
        self.parts.push(Arc::new(describe_operation::<Documentation>));
        self
    }
}

impl OperationRouter {
    #[must_use]
    pub fn new() -> OperationRouter {
        OperationRouter::default()
    }

    /// Adds the operations of a path.
    #[must_use]
    pub fn routes(mut self, operations: PathOperations) -> OperationRouter {
        self.parts.extend(operations.parts);
        self.route(&operations.path, operations.methods)
    }

    /// Adds a route that is not in the document.
    #[must_use]
    pub fn route(mut self, path: &str, methods: MethodRouter<Api>) -> OperationRouter {
        self.router = self.router.route(path, methods);
        self
    }

    /// Adds a part of the document that belongs to no operation.
    #[must_use]
    pub fn with_part(mut self, build: impl Fn() -> OpenApi + Send + Sync + 'static) -> OperationRouter {
        self.parts.push(Arc::new(build));
        self
    }

    /// Changes the part of the document of all operations so far.
    #[must_use]
    pub fn map_document(
        self,
        change: impl Fn(OpenApi) -> OpenApi + Send + Sync + 'static,
    ) -> OperationRouter {
        let OperationRouter { router, parts } = self;
        OperationRouter { router, parts: vec![Arc::new(move || change(merge_parts(&parts)))] }
    }

    #[must_use]
    pub fn merge(mut self, other: OperationRouter) -> OperationRouter {
        self.router = self.router.merge(other.router);
        self.parts.extend(other.parts);
        self
    }

    #[must_use]
    pub fn nest(mut self, prefix: &'static str, other: OperationRouter) -> OperationRouter {
        self.router = self.router.nest(prefix, other.router);
        let parts = other.parts;
        self.with_part(move || OpenApiBuilder::new().build().nest(prefix, merge_parts(&parts)))
    }

    #[must_use]
    pub fn layer<L>(mut self, layer: L) -> OperationRouter
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.router = self.router.layer(layer);
        self
    }

    /// Returns the routes without the document.
    pub fn into_router(self) -> Router<Api> {
        self.router
    }

    /// Builds the part of the document.
    #[must_use]
    pub fn build_document(&self) -> OpenApi {
        merge_parts(&self.parts)
    }
}

fn merge_parts(parts: &[BuildPart]) -> OpenApi {
    let mut document = OpenApiBuilder::new().build();
    for build in parts {
        document.merge(build());
    }
    document
}

fn describe_operation<Documentation: Path + Tags<'static> + SchemaReferences>() -> OpenApi {
    let mut operation = Documentation::operation();
    let tags = Documentation::tags();
    if !tags.is_empty() {
        operation.tags.get_or_insert_default().extend(tags.into_iter().map(str::to_owned));
    }
    let mut paths = Paths::new();
    paths.add_path_operation(Documentation::path(), Documentation::methods(), operation);
    let (mut schemas, mut components) = (Vec::new(), Components::new());
    Documentation::schemas(&mut schemas);
    components.schemas.extend(schemas);
    OpenApiBuilder::new().paths(paths).components(Some(components)).build()
}

fn filter_method(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
    }
}
