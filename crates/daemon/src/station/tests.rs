use super::openapi::openapi;
use super::routes::{Call, ROUTES};

#[test]
fn every_route_is_in_the_document_once_and_has_a_call_of_its_own() {
    let document = openapi();
    let paths = document["paths"].as_object().unwrap();
    let documented: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(documented, ROUTES.len());
    let mut calls: Vec<Call> = Vec::new();
    for route in ROUTES {
        let operation = &paths[route.path][route.method.to_ascii_lowercase()];
        assert!(operation["operationId"].is_string(), "{} {}", route.method, route.path);
        let in_path =
            operation["parameters"].as_array().unwrap().iter().any(|parameter| parameter["in"] == "path");
        assert_eq!(in_path, route.path.contains('{'));
        assert!(!calls.contains(&route.call));
        calls.push(route.call);
    }
}
