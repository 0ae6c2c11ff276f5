//! What happens to the pods of a step, attempt by attempt: what a test tells the simulated kubelet to play.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::gate::Gate;

/// One execution of a step's main container: what a program in it would see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The step's own name.
    pub step: String,
    /// The step's path in its run.
    pub path: String,
    pub attempt: i64,
    pub pod: String,
    pub pod_uid: String,
    /// ONCILLA_IDEMPOTENCY_KEY.
    pub key: String,
    /// ONCILLA_FENCE.
    pub fence: String,
    /// Every variable with a plain value.
    pub env: BTreeMap<String, String>,
    /// command and args.
    pub argv: Vec<String>,
}

/// What each attempt of a step meets; the last part goes for all further attempts.
#[derive(Clone, Debug)]
pub struct Story {
    parts: Vec<Part>,
}

/// What one attempt meets.
#[derive(Clone, Debug)]
pub struct Part {
    pub obstacle: Option<Obstacle>,
    /// The container runs until this gate opens.
    pub hold: Option<Gate>,
    pub end: End,
    /// Exit code and termination message when it is told to stop.
    pub when_stopped: (i32, String),
    /// The kubelet learns of the pod's deletion only after the container has ended by itself.
    pub unaware: bool,
}

/// Why the container does not start.
#[derive(Clone, Debug)]
pub struct Obstacle {
    pub kind: ObstacleKind,
    pub message: String,
    /// It is gone when this gate opens; None: it stays.
    pub until: Option<Gate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObstacleKind {
    Unschedulable,
    ImagePullFailing,
    ConfigMissing,
}

/// Exit code and termination message out of what the container sees.
type Program = Arc<dyn Fn(&Execution) -> (i32, String) + Send + Sync>;

/// How the container ends.
#[derive(Clone)]
pub enum End {
    /// Exit code and termination message: the output, when the code is 0.
    Exit(i32, String),
    OomKilled,
    /// It runs until it is told to stop.
    Never,
    /// Somebody deletes its pod, with the grace that its spec gives it.
    PodDeleted,
    /// Exit code and termination message out of what the container sees.
    Compute(Program),
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code, message) => write!(f, "Exit({code}, {message:?})"),
            End::OomKilled => f.write_str("OomKilled"),
            End::Never => f.write_str("Never"),
            End::PodDeleted => f.write_str("PodDeleted"),
            End::Compute(_) => f.write_str("Compute"),
        }
    }
}

impl Story {
    fn ends(end: End) -> Story {
        Story {
            parts: vec![Part {
                obstacle: None,
                hold: None,
                end,
                when_stopped: (143, String::new()),
                unaware: false,
            }],
        }
    }

    fn meets(kind: ObstacleKind, message: &str) -> Story {
        let mut story = Story::succeed("");
        story.last().obstacle = Some(Obstacle {
            kind,
            message: message.to_string(),
            until: None,
        });
        story
    }

    /// Exit 0 with this output.
    pub fn succeed(output: impl Into<String>) -> Story {
        Story::ends(End::Exit(0, output.into()))
    }

    /// This exit code, without a message.
    pub fn exit(code: i32) -> Story {
        Story::ends(End::Exit(code, String::new()))
    }

    /// This exit code, with this termination message.
    pub fn exit_saying(code: i32, message: impl Into<String>) -> Story {
        Story::ends(End::Exit(code, message.into()))
    }

    pub fn oom_killed() -> Story {
        Story::ends(End::OomKilled)
    }

    /// Runs until it is told to stop.
    pub fn hang() -> Story {
        Story::ends(End::Never)
    }

    /// Its pod is deleted while it runs.
    pub fn pod_deleted() -> Story {
        Story::ends(End::PodDeleted)
    }

    /// Exit code and termination message out of what the container sees.
    pub fn compute(f: impl Fn(&Execution) -> (i32, String) + Send + Sync + 'static) -> Story {
        Story::ends(End::Compute(Arc::new(f)))
    }

    pub fn unschedulable(message: &str) -> Story {
        Story::meets(ObstacleKind::Unschedulable, message)
    }

    pub fn image_pull_failing(message: &str) -> Story {
        Story::meets(ObstacleKind::ImagePullFailing, message)
    }

    /// A ConfigMap or Secret that the container needs is not there.
    pub fn config_missing(message: &str) -> Story {
        Story::meets(ObstacleKind::ConfigMissing, message)
    }

    /// The container runs until `gate` opens, and then ends.
    pub fn held_by(mut self, gate: &Gate) -> Story {
        self.last().hold = Some(gate.clone());
        self
    }

    /// What keeps it from starting goes away when `gate` opens.
    pub fn until(mut self, gate: &Gate) -> Story {
        let obstacle = self.last().obstacle.as_mut();
        obstacle.expect("only an obstacle can go away").until = Some(gate.clone());
        self
    }

    /// How it ends when it is told to stop. Without this: 143.
    pub fn when_stopped(mut self, code: i32, message: &str) -> Story {
        self.last().when_stopped = (code, message.to_string());
        self
    }

    /// The container ends by itself before the kubelet learns that its pod has been deleted, so that nothing told it to stop.
    pub fn unaware_of_deletion(mut self) -> Story {
        self.last().unaware = true;
        self
    }

    /// What the attempts after these meet.
    pub fn then(mut self, next: Story) -> Story {
        self.parts.extend(next.parts);
        self
    }

    /// The part of attempt number `attempt`, from 1.
    pub fn part(&self, attempt: i64) -> Part {
        let index = usize::try_from(attempt.max(1) - 1).unwrap_or(usize::MAX);
        self.parts[index.min(self.parts.len() - 1)].clone()
    }

    fn last(&mut self) -> &mut Part {
        self.parts.last_mut().expect("a story has a part")
    }
}
