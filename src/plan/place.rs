//! Places in a spec, written as the API server writes them: `spec.steps[2].container.env[0].value`.

use std::collections::BTreeMap;

/// The place of member `key` of the object at `place`. Keys that are no plain names are quoted in brackets, as a tree of templates
/// writes them.
pub fn member(place: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match (plain, place.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{place}.{key}"),
        (false, _) => format!("{place}['{key}']"),
    }
}

/// The place of what a tree calls `path`, if the tree stands at `place`.
pub fn inside(place: &str, path: &str) -> String {
    match path.is_empty() || path.starts_with('[') {
        true => format!("{place}{path}"),
        false => format!("{place}.{path}"),
    }
}

/// The place of item `index` of the list at `place`.
pub fn item(place: &str, index: usize) -> String {
    format!("{place}[{index}]")
}

/// Where the parts of a merged value stand in the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, String>);

impl Origins {
    /// What stands at `place` of the merged value, and everything in it, was written at `origin`.
    pub(super) fn add(&mut self, place: &str, origin: &str) {
        self.0.insert(place.to_owned(), origin.to_owned());
    }

    /// Where `place` of the merged value was written; `place` itself if that is not known.
    pub fn of(&self, place: &str) -> String {
        // The longest known place that holds it: cut at the ends of its parts, from the end.
        let mut known = place;
        loop {
            if let Some(origin) = self.0.get(known) {
                return format!("{origin}{}", &place[known.len()..]);
            }
            match known.rfind(['.', '[']) {
                Some(end) => known = &known[..end],
                None => return place.to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_the_api_server_does() {
        assert_eq!(member("spec", "steps"), "spec.steps");
        assert_eq!(member("", "env"), "env");
        assert_eq!(
            member("metadata.labels", "app.kubernetes.io/name"),
            "metadata.labels['app.kubernetes.io/name']"
        );
        assert_eq!(item("spec.steps", 2), "spec.steps[2]");
        assert_eq!(inside("container", "env[0].value"), "container.env[0].value");
        assert_eq!(inside("args", "[0]"), "args[0]");
        assert_eq!(inside("outputs.a", ""), "outputs.a");
    }

    #[test]
    fn the_longest_known_place_tells_the_origin() {
        let mut origins = Origins::default();
        origins.add("container", "spec.steps[0].container");
        origins.add("container.env[0]", "spec.defaults.container.env[3]");
        for (place, origin) in [
            ("container", "spec.steps[0].container"),
            ("container.image", "spec.steps[0].container.image"),
            ("container.env[1].value", "spec.steps[0].container.env[1].value"),
            ("container.env[0].value", "spec.defaults.container.env[3].value"),
            ("container.env[0]['a.b/c']", "spec.defaults.container.env[3]['a.b/c']"),
            ("podTemplate.spec", "podTemplate.spec"),
        ] {
            assert_eq!(origins.of(place), origin, "{place}");
        }
    }
}
