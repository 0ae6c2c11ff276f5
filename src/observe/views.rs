//! Kubernetes objects as far as Oncilla reads them. Everything else is dropped while an object is read, so that a cache holds
//! little, and nothing that a newer server may add makes a list unreadable: a field that is left out or null has its default.
//!
//! Views are for reading: writing one back would lose what it dropped.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::api::names::GROUP;
use crate::api::spec::WorkflowRun;
use crate::api::time::Time;

/// A WorkflowRun with spec and status as they stand, so that one odd run does not hide the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunView {
    /// Without managedFields and annotations: kubectl keeps a second copy of the whole run in one.
    #[serde(deserialize_with = "run_metadata")]
    pub metadata: ObjectMeta,
    pub spec: Value,
    pub status: Value,
}

/// A Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobView {
    /// Labels and annotations of ours only, and no managedFields.
    #[serde(deserialize_with = "own_metadata")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: JobSpecView,
    #[serde(deserialize_with = "nullable")]
    pub status: JobStatusView,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpecView {
    pub active_deadline_seconds: Option<i64>,
    pub backoff_limit: Option<i64>,
    pub backoff_limit_per_index: Option<i64>,
    pub completions: Option<i64>,
    pub managed_by: Option<String>,
    pub parallelism: Option<i64>,
    pub pod_failure_policy: Option<Present>,
    pub pod_replacement_policy: Option<String>,
    pub success_policy: Option<Present>,
    pub suspend: Option<bool>,
    pub ttl_seconds_after_finished: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub template: TemplateView,
}

/// The pods that a Job makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: TemplateMetadataView,
    #[serde(deserialize_with = "nullable")]
    pub spec: TemplateSpecView,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateMetadataView {
    #[serde(deserialize_with = "own_labels")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateSpecView {
    pub restart_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<TemplateContainerView>,
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<TemplateContainerView>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateContainerView {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    pub restart_policy: Option<String>,
    pub restart_policy_rules: Option<Present>,
    pub liveness_probe: Option<Present>,
    pub startup_probe: Option<Present>,
    pub lifecycle: Option<LifecycleView>,
    pub termination_message_path: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LifecycleView {
    pub post_start: Option<Present>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobStatusView {
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<ConditionView>,
}

/// A condition of a Job or a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConditionView {
    #[serde(deserialize_with = "nullable")]
    pub r#type: String,
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    #[serde(deserialize_with = "nullable")]
    pub message: String,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodView {
    /// Labels and annotations of ours only, and no managedFields.
    #[serde(deserialize_with = "own_metadata")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpecView,
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatusView,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpecView {
    pub node_name: Option<String>,
    pub active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<ContainerView>,
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<ContainerView>,
    #[serde(deserialize_with = "nullable")]
    pub ephemeral_containers: Vec<ContainerView>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerView {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    pub restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatusView {
    #[serde(deserialize_with = "nullable")]
    pub phase: String,
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    #[serde(deserialize_with = "nullable")]
    pub message: String,
    pub observed_generation: Option<i64>,
    #[serde(deserialize_with = "time")]
    pub start_time: Option<Time>,
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<ConditionView>,
    #[serde(deserialize_with = "nullable")]
    pub container_statuses: Vec<ContainerStatusView>,
    #[serde(deserialize_with = "nullable")]
    pub init_container_statuses: Vec<ContainerStatusView>,
    #[serde(deserialize_with = "nullable")]
    pub ephemeral_container_statuses: Vec<ContainerStatusView>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatusView {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub restart_count: i64,
    #[serde(deserialize_with = "nullable")]
    pub state: ContainerStateView,
    #[serde(deserialize_with = "nullable")]
    pub last_state: LastStateView,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerStateView {
    pub waiting: Option<WaitingView>,
    pub running: Option<RunningView>,
    pub terminated: Option<TerminatedView>,
}

/// The state before a restart: that there is one is all that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastStateView {
    pub waiting: Option<Present>,
    pub running: Option<Present>,
    pub terminated: Option<Present>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingView {
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    #[serde(deserialize_with = "nullable")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunningView {
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TerminatedView {
    /// Required by the API: one that is missing is no zero.
    pub exit_code: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    #[serde(deserialize_with = "nullable")]
    pub message: String,
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Time>,
    #[serde(deserialize_with = "time")]
    pub finished_at: Option<Time>,
    #[serde(rename = "containerID", deserialize_with = "nullable")]
    pub container_id: String,
}

/// An event about a Job or a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventView {
    #[serde(deserialize_with = "own_metadata")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub involved_object: InvolvedObjectView,
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    #[serde(deserialize_with = "nullable")]
    pub message: String,
    #[serde(deserialize_with = "time")]
    pub last_timestamp: Option<Time>,
    #[serde(deserialize_with = "time")]
    pub event_time: Option<Time>,
    pub series: Option<SeriesView>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InvolvedObjectView {
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SeriesView {
    #[serde(deserialize_with = "time")]
    pub last_observed_time: Option<Time>,
}

impl EventView {
    /// When it happened last.
    pub fn last_seen(&self) -> Option<Time> {
        let created = self.metadata.creation_timestamp.as_ref().map(|t| t.0.into());
        let series = self.series.as_ref().and_then(|series| series.last_observed_time);
        [series, self.last_timestamp, self.event_time, created]
            .into_iter()
            .flatten()
            .max()
    }
}

/// A field that is there; what it says does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present;

impl Serialize for Present {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Present, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Present)
    }
}

macro_rules! view_of {
    ($view:ty, $kind:ty) => {
        impl Resource for $view {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind(dt: &()) -> Cow<'_, str> {
                <$kind as Resource>::kind(dt)
            }
            fn group(dt: &()) -> Cow<'_, str> {
                <$kind as Resource>::group(dt)
            }
            fn version(dt: &()) -> Cow<'_, str> {
                <$kind as Resource>::version(dt)
            }
            fn plural(dt: &()) -> Cow<'_, str> {
                <$kind as Resource>::plural(dt)
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

view_of!(RunView, WorkflowRun);
view_of!(JobView, Job);
view_of!(PodView, Pod);
view_of!(EventView, Event);

/// Null is as good as nothing.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A time that cannot be read is as good as none. So is the zero of a container that could not be started.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    Ok(text
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map(Time::from)
        .filter(|time| time.millis() > 0))
}

fn run_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = nullable::<D, ObjectMeta>(deserializer)?;
    metadata.managed_fields = None;
    metadata.annotations = None;
    Ok(metadata)
}

fn own_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = nullable::<D, ObjectMeta>(deserializer)?;
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| is_own(key));
    }
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| is_own(key));
    }
    Ok(metadata)
}

/// Whether a label or annotation is Oncilla's.
fn is_own(key: &str) -> bool {
    key.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'))
}

/// A map's entries with keys of ours.
fn own_labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let mut labels = nullable::<D, BTreeMap<String, String>>(deserializer)?;
    labels.retain(|key, _| is_own(key));
    Ok(labels)
}
