//! stub
#[utoipa::path(get, path = "/docs", tag = "operations", security(("token" = [])), responses((status = 200, description = "x")))]
pub(super) async fn page() -> &'static str {
    ""
}
