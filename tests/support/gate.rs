//! A gate that a test opens: what makes a test's order certain without waiting for time to pass.

use std::sync::Arc;

use tokio::sync::watch;

/// Closed until somebody opens it. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    waiting: Arc<watch::Sender<usize>>,
}

impl Gate {
    pub fn closed() -> Gate {
        Gate {
            open: Arc::new(watch::Sender::new(false)),
            waiting: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Lets everybody through, from now on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until it is open.
    pub async fn pass(&self) {
        self.waiting.send_modify(|n| *n += 1);
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open).await.expect("a gate keeps its own sender");
    }

    /// Waits until `n` have come to the gate, whether or not it is open.
    pub async fn reached(&self, n: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting
            .wait_for(|count| *count >= n)
            .await
            .expect("a gate keeps its own sender");
    }
}
