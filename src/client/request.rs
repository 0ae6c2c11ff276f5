//! What a request asks for, read from its method and path the way the API server reads them.

use std::fmt;

use http::Method;

/// A request's verb, as RBAC has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A method that no verb stands for, such as OPTIONS.
    Other,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Other => "other",
        }
    }

    /// Whether it may change something.
    pub fn is_write(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub verb: Verb,
    /// `pods`, `jobs.batch`; `/` for a path that names no resource, such as `/version` or discovery.
    pub resource: String,
    /// `status`, `binding`; empty if there is none.
    pub subresource: String,
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
}

/// What `method` on `path_and_query` asks for.
pub fn classify(method: &Method, path_and_query: &str) -> Request {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _version, rest @ ..] if !rest.is_empty() => ("", rest),
        ["apis", group, _version, rest @ ..] if !rest.is_empty() => (*group, rest),
        _ => return nothing(method),
    };
    let (namespace, rest) = match rest {
        // These two are the namespace's own subresources, not resources in it.
        ["namespaces", name, "status" | "finalize"] => (*name, rest),
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (*namespace, inner),
        ["namespaces", name] => (*name, rest),
        _ => ("", rest),
    };
    let name = rest.get(1).copied().unwrap_or("");
    Request {
        verb: verb(method, name, query),
        resource: match group {
            "" => rest[0].to_string(),
            group => format!("{}.{group}", rest[0]),
        },
        subresource: rest.get(2).copied().unwrap_or("").to_string(),
        namespace: namespace.to_string(),
        name: name.to_string(),
    }
}

fn nothing(method: &Method) -> Request {
    Request {
        verb: verb(method, "/", ""),
        resource: "/".to_string(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
    }
}

fn verb(method: &Method, name: &str, query: &str) -> Verb {
    match *method {
        Method::GET | Method::HEAD if is_set(query, "watch") => Verb::Watch,
        Method::GET | Method::HEAD if name.is_empty() => Verb::List,
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if name.is_empty() => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ => Verb::Other,
    }
}

/// Whether the query says `parameter=true` (or 1).
pub(crate) fn is_set(query: &str, parameter: &str) -> bool {
    query.split('&').any(|pair| {
        pair.split_once('=')
            .is_some_and(|(key, value)| key == parameter && matches!(value, "true" | "1"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_the_api_server_reads_it() {
        // method and path, verb, resource, subresource, namespace, name; "-" is nothing.
        let table = "
            GET    /api/v1/pods                                            list   pods - - -
            GET    /api/v1/namespaces/shop/pods?limit=500                  list   pods - shop -
            GET    /api/v1/namespaces/shop/pods?watch=true&timeoutSeconds=290  watch pods - shop -
            GET    /api/v1/namespaces/shop/pods?labelSelector=watch%3Dtrue list   pods - shop -
            GET    /api/v1/namespaces/shop/pods?watch=false                list   pods - shop -
            GET    /apis/batch/v1/jobs?allowWatchBookmarks=true&watch=1    watch  jobs.batch - - -
            GET    /api/v1/namespaces/shop/pods/p-1                        get    pods - shop p-1
            GET    /api/v1/namespaces/shop/pods/p-1/log                    get    pods log shop p-1
            PATCH  /api/v1/namespaces/shop/pods/p-1/status                 patch  pods status shop p-1
            POST   /api/v1/namespaces/shop/pods/p-1/binding                create pods binding shop p-1
            POST   /apis/batch/v1/namespaces/shop/jobs                     create jobs.batch - shop -
            PATCH  /apis/batch/v1/namespaces/shop/jobs/j                   patch  jobs.batch - shop j
            DELETE /apis/batch/v1/namespaces/shop/jobs/j                   delete jobs.batch - shop j
            DELETE /apis/batch/v1/namespaces/shop/jobs                     deletecollection jobs.batch - shop -
            PATCH  /apis/oncilla.dev/v1alpha1/namespaces/shop/workflowruns/r/status?fieldManager=oncilla  patch workflowruns.oncilla.dev status shop r
            PUT    /apis/oncilla.dev/v1alpha1/namespaces/shop/workflowruns/r  update workflowruns.oncilla.dev - shop r
            POST   /apis/events.k8s.io/v1/namespaces/shop/events           create events.events.k8s.io - shop -
            GET    /api/v1/nodes/n1                                        get    nodes - - n1
            PATCH  /api/v1/nodes/n1/status                                 patch  nodes status - n1
            GET    /api/v1/namespaces                                      list   namespaces - - -
            GET    /api/v1/namespaces/shop                                 get    namespaces - shop shop
            DELETE /api/v1/namespaces/shop                                 delete namespaces - shop shop
            PUT    /api/v1/namespaces/shop/finalize                        update namespaces finalize shop shop
            PATCH  /api/v1/namespaces/shop/status                          patch  namespaces status shop shop
            GET    /apis                                                   get    / - - -
            GET    /apis/batch/v1                                          get    / - - -
            GET    /api/v1                                                 get    / - - -
            GET    /version                                                get    / - - -
            GET    /                                                       get    / - - -
            POST   /apis/authorization.k8s.io/v1/selfsubjectaccessreviews  create selfsubjectaccessreviews.authorization.k8s.io - - -
            OPTIONS /api/v1/pods                                           other  pods - - -
        ";
        let word = |text: &str| match text {
            "-" => String::new(),
            text => text.to_string(),
        };
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let [method, path, verb, resource, subresource, namespace, name] = cells[..] else {
                panic!("a row has seven cells: {line}");
            };
            let request = classify(&method.parse().unwrap(), path);
            assert_eq!(request.verb.as_str(), verb, "{line}");
            assert_eq!(request.resource, resource, "{line}");
            assert_eq!(request.subresource, word(subresource), "{line}");
            assert_eq!(request.namespace, word(namespace), "{line}");
            assert_eq!(request.name, word(name), "{line}");
        }
    }
}
