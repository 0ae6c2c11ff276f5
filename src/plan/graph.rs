//! The order of steps that need each other, or the circles that leave none.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The order in which every node comes after those it needs; among nodes that could be next the first comes first, so the order
/// is the given one wherever it may be.
///
/// # Errors
/// The circles, if there are any: one for each set of nodes that are waiting for each other, the shortest through its first
/// node, beginning with that node, each node followed by one that it needs.
pub fn order(needs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let mut needed_by = vec![Vec::new(); needs.len()];
    let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
    for (node, needs) in needs.iter().enumerate() {
        for &need in needs {
            needed_by[need].push(node);
        }
    }
    let mut ready: BinaryHeap<_> = (0..needs.len())
        .filter(|&node| missing[node] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(needs.len());
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &next in &needed_by[node] {
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    if order.len() == needs.len() {
        return Ok(order);
    }
    Err(circles(needs))
}

/// One circle for each set of nodes that wait for each other.
fn circles(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let set = sets(needs);
    let mut told = vec![false; needs.len()];
    let mut circles = Vec::new();
    for start in 0..needs.len() {
        if told[set[start]] {
            continue;
        }
        if let Some(circle) = shortest_circle(needs, &set, start) {
            told[set[start]] = true;
            circles.push(circle);
        }
    }
    circles
}

/// For each node the number of its set: two nodes have the same if each can be reached from the other (Kosaraju's way, without
/// recursion, because a spec may be a line of a thousand steps).
fn sets(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut finished = Vec::with_capacity(needs.len());
    let mut seen = vec![false; needs.len()];
    for start in 0..needs.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut stack = vec![(start, needs[start].iter())];
        while let Some((node, edges)) = stack.last_mut() {
            match edges.next() {
                Some(&next) => {
                    if !std::mem::replace(&mut seen[next], true) {
                        stack.push((next, needs[next].iter()));
                    }
                }
                None => {
                    finished.push(*node);
                    stack.pop();
                }
            }
        }
    }

    let mut reverse = vec![Vec::new(); needs.len()];
    for (node, needs) in needs.iter().enumerate() {
        for &need in needs {
            reverse[need].push(node);
        }
    }
    let mut set = vec![usize::MAX; needs.len()];
    for &start in finished.iter().rev() {
        let mut stack = vec![start];
        while let Some(node) = stack.pop() {
            if set[node] == usize::MAX {
                set[node] = start;
                stack.extend(&reverse[node]);
            }
        }
    }
    set
}

/// The shortest way from `start` over needs back to it. It never leaves the node's set.
fn shortest_circle(needs: &[Vec<usize>], set: &[usize], start: usize) -> Option<Vec<usize>> {
    let mut before = vec![None; needs.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for &need in &needs[node] {
            if need == start {
                let mut circle = vec![node];
                let mut at = node;
                while let Some(previous) = before[at] {
                    circle.push(previous);
                    at = previous;
                }
                circle.reverse();
                return Some(circle);
            }
            if set[need] == set[start] && before[need].is_none() {
                before[need] = Some(node);
                queue.push_back(need);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_given_order_stays_where_it_may() {
        for (needs, expected) in [
            (vec![], vec![]),
            (vec![vec![], vec![], vec![]], vec![0, 1, 2]),
            (vec![vec![2], vec![], vec![]], vec![1, 2, 0]),
            (vec![vec![1], vec![2], vec![], vec![]], vec![2, 1, 0, 3]),
            (vec![vec![], vec![0, 3], vec![], vec![]], vec![0, 2, 3, 1]),
        ] {
            assert_eq!(order(&needs), Ok(expected), "{needs:?}");
        }
    }

    #[test]
    fn every_circle_is_named_once_in_order() {
        for (needs, expected) in [
            (vec![vec![0]], vec![vec![0]]),
            (vec![vec![1], vec![0]], vec![vec![0, 1]]),
            (vec![vec![1], vec![2], vec![0]], vec![vec![0, 1, 2]]),
            // The shortest way round.
            (vec![vec![1, 2], vec![2], vec![0]], vec![vec![0, 2]]),
            // Two circles, and one that only waits for them.
            (
                vec![vec![1], vec![0], vec![0, 3], vec![4], vec![3]],
                vec![vec![0, 1], vec![3, 4]],
            ),
            // The first node is in no circle.
            (vec![vec![1], vec![2], vec![1]], vec![vec![1, 2]]),
        ] {
            assert_eq!(order(&needs), Err(expected), "{needs:?}");
        }
    }

    #[test]
    fn ten_thousand_nodes_in_a_line_or_a_circle_are_no_matter() {
        let mut needs: Vec<Vec<usize>> = (0..10_000).map(|n| vec![n + 1]).collect();
        needs.push(vec![]);
        assert_eq!(order(&needs), Ok((0..=10_000).rev().collect()));
        needs[10_000].push(0);
        assert_eq!(order(&needs), Err(vec![(0..=10_000).collect()]));
    }

    proptest! {
        #[test]
        fn an_order_respects_needs_and_circles_are_circles(
            needs in (1..12usize).prop_flat_map(|n| prop::collection::vec(prop::collection::btree_set(0..n, 0..4), n)),
        ) {
            let needs: Vec<Vec<usize>> = needs.into_iter().map(|set| set.into_iter().collect()).collect();
            match order(&needs) {
                Ok(order) => {
                    let mut sorted = order.clone();
                    sorted.sort_unstable();
                    prop_assert_eq!(sorted, (0..needs.len()).collect::<Vec<_>>());
                    let mut done = vec![false; needs.len()];
                    for node in order {
                        prop_assert!(needs[node].iter().all(|&need| done[need]));
                        done[node] = true;
                    }
                }
                Err(circles) => {
                    prop_assert!(!circles.is_empty());
                    for circle in circles {
                        for (i, node) in circle.iter().enumerate() {
                            let next = circle[(i + 1) % circle.len()];
                            prop_assert!(needs[*node].contains(&next));
                        }
                    }
                }
            }
        }
    }
}
