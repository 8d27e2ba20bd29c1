//! Random graphs for the simulation.

use std::num::NonZeroU32;
use std::time::Duration;

use indexmap::IndexMap;

use crate::graph::Graph;
use crate::graph::model::{
    Access, Agent, CleanupPolicy, Dependency, FeedbackArc, GraphParts, Lane, Node, NodeKind, On, OnFail,
    Overlay, PermissionMode, Provision, ProvisionRetry, Retry, SuccessCheck, Template, Verify,
};
use crate::ids::{LaneIx, LaneName, NodeId, NodeIx};
use crate::money::Usd;

/// SplitMix64; a seed is a schedule.
pub(super) struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

fn node(id: usize) -> Node {
    Node {
        id: NodeId::from(format!("n{id}")),
        kind: NodeKind::Command { run: Template::literal("true") },
        line: 0,
        description: None,
        depends_on: Vec::new(),
        lane: None,
        access: Access::Write,
        cwd: None,
        env: IndexMap::new(),
        timeout: None,
        check: SuccessCheck::default(),
        retry: Retry::default(),
        grace: Duration::from_secs(10),
        output_max: 1 << 30,
    }
}

/// Returns a random graph.
pub(super) fn graph(dice: &mut Dice) -> Graph {
    let lanes = dice.below(4);
    let count = 1 + dice.below(12);
    let mut nodes = Vec::new();
    for at in 0..count {
        let mut node = node(at);
        for before in 0..at {
            if dice.percent(25) {
                let on = dice.pick(&[On::Passed, On::Passed, On::Passed, On::Finished, On::Failed]);
                node.depends_on.push(Dependency { node: NodeIx(before as u32), on });
            }
        }
        if lanes > 0 && dice.percent(70) {
            node.lane = Some(LaneIx(dice.below(lanes) as u32));
            node.access = dice.pick(&[Access::Write, Access::Write, Access::Read]);
        }
        match dice.below(10) {
            0 => {
                (node.kind, node.lane) = (NodeKind::Gate, None);
                nodes.push(node);
                continue;
            }
            1 | 2 => node.kind = NodeKind::Agent(Box::new(agent(dice))),
            _ => {}
        }
        node.retry = Retry { max: dice.below(3) as u32, on: Vec::new(), backoff: Duration::ZERO };
        node.timeout = dice.percent(20).then_some(Duration::from_secs(1));
        if dice.percent(25) {
            node.check.verify = Some(Verify {
                command: Template::literal("true"),
                cwd: None,
                timeout: Duration::from_secs(1),
                expect_exit: 0,
                output_matches: None,
            });
        }
        nodes.push(node);
    }
    let max_parallel = dice.percent(30).then(|| NonZeroU32::new(1 + dice.below(2) as u32).unwrap());
    let retry = dice.pick(&[ProvisionRetry::Transient, ProvisionRetry::Always, ProvisionRetry::Never]);
    let parts = GraphParts {
        name: "sim".into(),
        inputs: IndexMap::new(),
        env: IndexMap::new(),
        shell: vec!["sh".into(), "-c".into()],
        concurrency: None,
        on_fail: dice.pick(&[OnFail::Halt, OnFail::Continue]),
        base: None,
        provision: Provision { max_parallel, retry, ..Provision::default() },
        overlay: Overlay::default(),
        cleanup: CleanupPolicy::Safe,
        pass_env: Vec::new(),
        identity: None,
        lanes: (0..lanes)
            .map(|at| Lane {
                name: LaneName::from(format!("l{at}")),
                base: None,
                provision: None,
                overlay: dice
                    .percent(40)
                    .then(|| Overlay { paths: vec![".env".into()], include_file: false }),
                cleanup: None,
            })
            .collect(),
        nodes,
        budget: dice.percent(30).then(|| Usd::from_micros(100_000 * (1 + dice.below(20)) as u64)),
        runtimes: IndexMap::new(),
        feedback: Vec::new(),
        later: Vec::new(),
    };
    with_arcs(dice, parts)
}

fn agent(dice: &mut Dice) -> Agent {
    Agent {
        prompt: Template::literal("do"),
        runtimes: (0..1 + dice.below(2)).map(|at| format!("r{at}")).collect(),
        model: None,
        agent: None,
        permission: PermissionMode::default(),
        allowed_tools: Vec::new(),
        budget: dice.percent(50).then(|| Usd::from_micros(200_000)),
        goes_on: false,
    }
}

/// Returns the graph with a few feedback arcs, as far as they keep the rules of DESIGN.md section 2.
fn with_arcs(dice: &mut Dice, mut parts: GraphParts) -> Graph {
    let count = parts.nodes.len();
    for _ in 0..dice.below(4) {
        let (one, other) = (dice.below(count) as u32, dice.below(count) as u32);
        let arc = FeedbackArc {
            node: NodeIx(one.max(other)),
            rerun: NodeIx(one.min(other)),
            max: 1 + dice.below(2) as u32,
        };
        let mut alone = parts.clone();
        alone.feedback = vec![arc];
        let alone = Graph::new(alone).unwrap();
        let body = alone.body(arc.node).to_vec();
        let is_inside = |ix: &NodeIx| body.contains(ix);
        let is_left_early =
            |ix: &&NodeIx| **ix != arc.node && alone.dependents(**ix).any(|(next, _)| !is_inside(&next));
        let others: Vec<NodeIx> = match Graph::new(parts.clone()) {
            Ok(graph) => parts.feedback.iter().flat_map(|arc| graph.body(arc.node).to_vec()).collect(),
            Err(_) => Vec::new(),
        };
        let is_right = body.len() > 1
            && is_inside(&arc.node)
            && !body.iter().any(|ix| alone.is_gate(*ix) || others.contains(ix))
            && !body.iter().any(|ix| is_left_early(&ix));
        if is_right {
            parts.feedback.push(arc);
        }
    }
    Graph::new(parts).unwrap()
}
