//! Who comes before whom: cycles, and which nodes are ancestors of which.
//!
//! Works on plain indices, without recursion, also where there are cycles.

use std::collections::{BTreeSet, VecDeque};

use petgraph::Direction;

use super::traverse::{Adjacency, View};

/// Ancestors are asked for this many at a time: one pass over the graph answers them all, in memory
/// that grows with the nodes only.
const CHUNK: usize = 512;
const WORDS: usize = CHUNK / 64;

/// Edges of a graph that may have cycles, and its nodes in an order that respects all others.
#[derive(Debug)]
pub(super) struct Reach {
    /// For each node, what it waits for.
    before: Vec<Vec<u32>>,
    /// Groups of nodes that wait for each other; dependencies first. Most have one node.
    groups: Vec<Vec<u32>>,
}

impl Reach {
    /// Returns the graph in which node `n` waits for `before[n]`.
    pub fn new(before: Vec<Vec<u32>>) -> Reach {
        let mut groups = knots(&before, &turned(&before));
        groups.iter_mut().for_each(|group| group.sort_unstable());
        Reach { before, groups }
    }

    /// Returns one shortest cycle of every group of nodes that wait for each other, each from the node
    /// that comes first in the file, in the order "waits for", the first not repeated.
    pub fn cycles(&self) -> Vec<Vec<u32>> {
        let mut found: Vec<Vec<u32>> = self
            .groups
            .iter()
            .filter(|group| group.len() > 1 || self.before[group[0] as usize].contains(&group[0]))
            .map(|group| self.cycle_from(group[0], group))
            .collect();
        found.sort_unstable_by_key(|cycle| cycle[0]);
        found
    }

    fn cycle_from(&self, start: u32, group: &[u32]) -> Vec<u32> {
        let place = |node: u32| group.binary_search(&node).ok();
        let mut came_from = vec![None; group.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for &next in &self.before[node as usize] {
                if next == start {
                    let mut path = vec![node];
                    while let Some(earlier) =
                        path.last().and_then(|last| place(*last)).and_then(|at| came_from[at])
                    {
                        path.push(earlier);
                    }
                    path.reverse();
                    return path;
                }
                if let Some(at) = place(next)
                    && came_from[at].is_none()
                {
                    came_from[at] = Some(node);
                    queue.push_back(next);
                }
            }
        }
        vec![start]
    }

    /// Returns which nodes are on a cycle.
    pub fn on_cycles(&self) -> Vec<bool> {
        let mut on = vec![false; self.before.len()];
        for group in self.groups.iter().filter(|group| group.len() > 1) {
            group.iter().for_each(|node| on[*node as usize] = true);
        }
        on
    }

    /// Returns, for each question `(node, mark)`, whether an ancestor of `node` bears `mark`.
    ///
    /// `marks` holds the nodes that bear each mark.
    pub fn has_ancestor(&self, questions: &[(u32, usize)], marks: &[Vec<u32>]) -> Vec<bool> {
        let mut answers = vec![false; questions.len()];
        for (chunk, marks) in marks.chunks(CHUNK).enumerate() {
            let above = self.marks_above(marks);
            for ((node, mark), answer) in questions.iter().zip(&mut answers) {
                if mark / CHUNK == chunk {
                    let bit = mark % CHUNK;
                    *answer = above[*node as usize][bit / 64] & (1 << (bit % 64)) != 0;
                }
            }
        }
        answers
    }

    /// Returns for each node the marks of its ancestors, as bits.
    fn marks_above(&self, marks: &[Vec<u32>]) -> Vec<[u64; WORDS]> {
        let mut own = vec![[0_u64; WORDS]; self.before.len()];
        for (bit, bearers) in marks.iter().enumerate() {
            bearers.iter().for_each(|node| own[*node as usize][bit / 64] |= 1 << (bit % 64));
        }
        let mut above = vec![[0_u64; WORDS]; self.before.len()];
        for group in &self.groups {
            let mut bits = [0_u64; WORDS];
            for &node in group {
                for &from in &self.before[node as usize] {
                    join(&mut bits, &above[from as usize]);
                    join(&mut bits, &own[from as usize]);
                }
            }
            group.iter().for_each(|node| above[*node as usize] = bits);
        }
        above
    }

    /// Returns, for each group of nodes, a node that `is_asked` and has two ancestors in the group, with two of
    /// them: one before which no other such comes.
    pub fn below_two(
        &self,
        groups: &[Vec<u32>],
        is_asked: impl Fn(u32) -> bool,
    ) -> Vec<Option<(u32, u32, u32)>> {
        let mut answers = vec![None; groups.len()];
        let mut small: Vec<usize> = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            if group.len() > CHUNK {
                answers[at] = self.below_two_of(group).into_iter().find(|(node, ..)| is_asked(*node));
            } else {
                small.push(at);
            }
        }
        if small.is_empty() {
            return answers;
        }
        let mut below = Below::new(self);
        let mut rest = small.as_slice();
        while !rest.is_empty() {
            let mut members = 0;
            let taken = rest.iter().take_while(|at| {
                members += groups[**at].len();
                members <= CHUNK
            });
            let (chunk, later) = rest.split_at(taken.count());
            below.answer(groups, chunk, &is_asked, &mut answers);
            rest = later;
        }
        answers
    }

    /// Returns the nodes that have two ancestors among `marked`, in file order, each with two of them.
    fn below_two_of(&self, marked: &[u32]) -> Vec<(u32, u32, u32)> {
        let mut is_marked = vec![false; self.before.len()];
        marked.iter().for_each(|node| is_marked[*node as usize] = true);
        let mut above: Vec<[Option<u32>; 2]> = vec![[None; 2]; self.before.len()];
        for group in &self.groups {
            let mut seen = [None; 2];
            for from in group.iter().flat_map(|node| &self.before[*node as usize]) {
                let own = is_marked[*from as usize].then_some(*from);
                for found in above[*from as usize].into_iter().chain([own]).flatten() {
                    match seen {
                        [None, _] => seen[0] = Some(found),
                        [Some(first), None] if first != found => seen[1] = Some(found),
                        _ => {}
                    }
                }
            }
            group.iter().for_each(|node| above[*node as usize] = seen);
        }
        let both = |(node, seen): (usize, &[Option<u32>; 2])| Some((node as u32, seen[0]?, seen[1]?));
        above.iter().enumerate().filter_map(both).collect()
    }

    /// Returns every node on a path from `first` to `last`, both included; empty where there is none.
    ///
    /// `place` is [`Reach::places`]: what comes before `first` in it is not looked at.
    pub fn between(&self, first: u32, last: u32, after: &[Vec<u32>], place: &[u32]) -> Vec<u32> {
        let begin = place[first as usize];
        let back = walk(last, &self.before, |node| place[node as usize] >= begin);
        walk(first, after, |node| back.contains(&node))
            .into_iter()
            .filter(|node| back.contains(node))
            .collect()
    }

    /// Returns for each node its place in an order in which all that a node waits for comes before it;
    /// nodes that wait for each other share one.
    pub fn places(&self) -> Vec<u32> {
        let mut places = vec![0; self.before.len()];
        for (place, group) in self.groups.iter().enumerate() {
            group.iter().for_each(|node| places[*node as usize] = place as u32);
        }
        places
    }

    /// Returns, for each node, what waits for it.
    pub fn after(&self) -> Vec<Vec<u32>> {
        turned(&self.before)
    }
}

/// Returns edges seen from their other end.
fn turned(before: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut after = vec![Vec::new(); before.len()];
    for (node, befores) in before.iter().enumerate() {
        befores.iter().for_each(|from| after[*from as usize].push(node as u32));
    }
    after
}

/// Returns the nodes in groups that wait for each other, dependencies first.
fn knots(before: &[Vec<u32>], after: &[Vec<u32>]) -> Vec<Vec<u32>> {
    petgraph::algo::kosaraju_scc(View(&BothWays { before, after }))
}

/// Edges from what waits to what it waits for.
struct BothWays<'a> {
    before: &'a [Vec<u32>],
    after: &'a [Vec<u32>],
}

impl Adjacency for BothWays<'_> {
    type Edge = u32;

    fn count(&self) -> usize {
        self.before.len()
    }

    fn edges(&self, node: u32, way: Direction) -> &[u32] {
        match way {
            Direction::Outgoing => &self.before[node as usize],
            Direction::Incoming => &self.after[node as usize],
        }
    }

    fn end(edge: &u32) -> u32 {
        *edge
    }
}

/// Looks below the members of groups, no further than it has to: most groups have little below them.
struct Below<'r> {
    reach: &'r Reach,
    after: Vec<Vec<u32>>,
    place: Vec<u32>,
    /// For each node the members that it is, and those that are its ancestors, as bits; all unset between chunks.
    own: Vec<[u64; WORDS]>,
    above: Vec<[u64; WORDS]>,
}

impl<'r> Below<'r> {
    fn new(reach: &'r Reach) -> Below<'r> {
        let none = vec![[0; WORDS]; reach.before.len()];
        Below { reach, after: reach.after(), place: reach.places(), own: none.clone(), above: none }
    }

    /// Answers for some of the groups, which have no more than [`CHUNK`] members together.
    fn answer(
        &mut self,
        groups: &[Vec<u32>],
        chunk: &[usize],
        is_asked: impl Fn(u32) -> bool,
        answers: &mut [Option<(u32, u32, u32)>],
    ) {
        let members: Vec<(usize, u32)> =
            chunk.iter().flat_map(|at| groups[*at].iter().map(|node| (*at, *node))).collect();
        // The knots that are still to be looked at, and how many those are.
        let mut due = vec![false; self.reach.groups.len()];
        let mut count = 0;
        let note =
            |due: &mut Vec<bool>, place: u32| usize::from(!std::mem::replace(&mut due[place as usize], true));
        for (bit, (_, node)) in members.iter().enumerate() {
            self.own[*node as usize][bit / 64] |= 1 << (bit % 64);
            for next in &self.after[*node as usize] {
                count += note(&mut due, self.place[*next as usize]);
            }
        }
        let mut open = chunk.len();
        let mut touched: Vec<u32> = Vec::new();
        let mut place = 0;
        while count > 0 && open > 0 {
            if due[place] {
                count -= 1;
                let knot = &self.reach.groups[place];
                let found = self.look(knot);
                touched.extend(knot);
                if let Some(reader) = knot.iter().find(|node| is_asked(**node)) {
                    open -= take_pairs(&members, &found, *reader, answers);
                }
                for next in knot.iter().flat_map(|node| &self.after[*node as usize]) {
                    if self.place[*next as usize] as usize > place {
                        count += note(&mut due, self.place[*next as usize]);
                    }
                }
            }
            place += 1;
        }
        touched.iter().for_each(|node| self.above[*node as usize] = [0; WORDS]);
        members.iter().for_each(|(_, node)| self.own[*node as usize] = [0; WORDS]);
    }

    /// Returns the members that are ancestors of a knot's nodes, and keeps them for what is below.
    fn look(&mut self, knot: &[u32]) -> [u64; WORDS] {
        let mut found = [0; WORDS];
        for from in knot.iter().flat_map(|node| &self.reach.before[*node as usize]) {
            join(&mut found, &self.above[*from as usize]);
            join(&mut found, &self.own[*from as usize]);
        }
        knot.iter().for_each(|node| self.above[*node as usize] = found);
        found
    }
}

/// Notes `reader` for each group of which two members are `found` and that has no answer yet; returns how many.
fn take_pairs(
    members: &[(usize, u32)],
    found: &[u64; WORDS],
    reader: u32,
    answers: &mut [Option<(u32, u32, u32)>],
) -> usize {
    let mut last: Option<(usize, u32)> = None;
    let mut taken = 0;
    for (at, member) in bits(found).map(|bit| members[bit]) {
        if let Some((_, first)) = last.filter(|(same, _)| *same == at && answers[at].is_none()) {
            answers[at] = Some((reader, first, member));
            taken += 1;
        }
        last = Some((at, member));
    }
    taken
}

fn join(into: &mut [u64; WORDS], from: &[u64; WORDS]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into |= from);
}

/// Returns what can be come to from `start` through nodes that may be entered, `start` included.
fn walk(start: u32, edges: &[Vec<u32>], may_enter: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for next in edges[node as usize].iter().filter(|next| may_enter(**next)) {
            if found.insert(*next) {
                open.push(*next);
            }
        }
    }
    found
}

/// Returns the numbers of the bits that are set, in order.
fn bits(words: &[u64; WORDS]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                at * 64 + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knot_gives_one_shortest_cycle() {
        // 0 → 1 → 2 → 0 with the shortcut 1 → 0; 3 waits for itself; 4 is free; 5 ⇄ 6.
        let reach = Reach::new(vec![vec![1], vec![2, 0], vec![0], vec![3], vec![0], vec![6], vec![5]]);
        assert_eq!(reach.cycles(), [vec![0, 1], vec![3], vec![5, 6]]);
    }

    #[test]
    fn knots_come_after_what_they_wait_for() {
        // A knot of knots: 0 → 1 → 2 → 0 and 2 → 3 → 4 → 3; 5 waits for 0, and nothing for 5.
        let reach = Reach::new(vec![vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![0, 4]]);
        assert_eq!(reach.groups, [vec![3, 4], vec![0, 1, 2], vec![5]]);
        let diamond = Reach::new(vec![vec![1, 2], vec![3], vec![3], vec![]]);
        let place = |node: u32| diamond.groups.iter().position(|group| *group == [node]).unwrap();
        assert!(place(3) < place(1).min(place(2)) && place(1).max(place(2)) < place(0));
    }

    #[test]
    fn ancestors_are_found_across_chunks_and_round_cycles() {
        let count = 3 * CHUNK as u32;
        let chain = (0..count).map(|node| if node == 0 { vec![] } else { vec![node - 1] }).collect();
        let reach = Reach::new(chain);
        let marks: Vec<Vec<u32>> = (0..count).map(|node| vec![node]).collect();
        let last = count - 1;
        let questions = [(last, 0), (last, last as usize - 1), (last, last as usize), (0, last as usize)];
        assert_eq!(reach.has_ancestor(&questions, &marks), [true, true, false, false]);
        let knot = Reach::new(vec![vec![1], vec![0], vec![0]]);
        assert_eq!(knot.has_ancestor(&[(2, 0), (0, 0), (2, 1)], &[vec![1], vec![2]]), [true, true, false]);
    }

    #[test]
    fn what_lies_between_two_nodes_is_the_body_of_an_arc() {
        // 0 → 1 → 3, 0 → 2 → 3, and 4 beside.
        let reach = Reach::new(vec![vec![], vec![0], vec![0], vec![1, 2], vec![0]]);
        let between = |first, last| reach.between(first, last, &reach.after(), &reach.places());
        assert_eq!(between(0, 3), [0, 1, 2, 3]);
        assert_eq!(between(1, 3), [1, 3]);
        assert!(between(4, 3).is_empty() && between(3, 1).is_empty());
        assert_eq!(between(3, 3), [3]);
    }

    #[test]
    fn two_ancestors_of_one_group_are_found_whatever_the_size_of_groups() {
        // Pairs 2n, 2n + 1 come before 10_000 + n each; the last node waits for all of the first thousand.
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); 10_000];
        before.extend((0..5_000).map(|at| if at % 2 == 0 { vec![2 * at, 2 * at + 1] } else { vec![2 * at] }));
        before.push((0..1_000).collect());
        let reach = Reach::new(before);
        let mut groups: Vec<Vec<u32>> = (0..5_000).map(|at| vec![2 * at, 2 * at + 1]).collect();
        groups.push((0..10_000).step_by(4).collect());
        let found = reach.below_two(&groups, |_| true);
        assert_eq!(found[0], Some((10_000, 0, 1)));
        assert_eq!(found[1], Some((15_000, 2, 3)));
        assert_eq!(found[4_998], Some((14_998, 9_996, 9_997)));
        assert_eq!(found[4_999], None);
        assert_eq!(found[5_000], Some((15_000, 0, 4)));
        assert_eq!(reach.below_two(&groups, |node| node == 15_000)[0], Some((15_000, 0, 1)));
    }

    #[test]
    fn a_group_has_an_answer_exactly_where_some_node_has_two_ancestors_in_it() {
        let mut seed = 7_u64;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32 % below
        };
        for _ in 0..500 {
            let count = 2 + random(12);
            let before: Vec<Vec<u32>> =
                (0..count).map(|_| (0..random(3)).map(|_| random(count)).collect()).collect();
            let reach = Reach::new(before.clone());
            let groups: Vec<Vec<u32>> =
                (0..3).map(|rest| (0..count).filter(|node| node % 3 == rest).collect()).collect();
            let ancestors = |node: u32| -> BTreeSet<u32> {
                before[node as usize].iter().flat_map(|from| walk(*from, &before, |_| true)).collect()
            };
            let both = |node: u32, group: &[u32]| {
                group.iter().filter(|member| ancestors(node).contains(member)).count() >= 2
            };
            for (group, found) in groups.iter().zip(reach.below_two(&groups, |_| true)) {
                match found {
                    None => assert!((0..count).all(|node| !both(node, group)), "{before:?} {group:?}"),
                    Some((node, one, other)) => {
                        let all = ancestors(node);
                        assert!(one != other && all.contains(&one) && all.contains(&other), "{before:?}");
                        assert!(group.contains(&one) && group.contains(&other), "{before:?} {group:?}");
                    }
                }
            }
        }
    }
}
