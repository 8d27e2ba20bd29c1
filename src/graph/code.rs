//! The codes of problems, once: a closed set, each with what it stands for.
//!
//! Programs rely on these words (DESIGN.md section 14): one is added when a new kind of problem is, and
//! none is renamed, put to another use or taken away. `docs/errors.md` is made from this list.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($variant:ident = $word:literal, $meaning:literal;)+) => {
        /// The kind of a problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)+
        }

        impl Code {
            /// Every code, in the order of [`Code::word`].
            pub const ALL: &[Code] = &[$(Code::$variant,)+];

            /// Returns the code as programs see it: stable, in kebab case.
            pub fn word(self) -> &'static str {
                match self {
                    $(Code::$variant => $word,)+
                }
            }

            /// Returns what it stands for: a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$variant => $meaning,)+
                }
            }
        }
    };
}

codes! {
    AccessWithoutLane = "access-without-lane",
        "`access` is given for a node that works in no lane, where it says nothing.";
    AliasBomb = "alias-bomb",
        "YAML aliases repeat so much that the file stands for more than it should.";
    AliasInItself = "alias-in-itself",
        "A YAML alias stands inside the very value that it would repeat.";
    ArtifactsInlineInCommand = "artifacts-inline-in-command",
        "The text of a result would become part of a command line: shell injection.";
    BadId = "bad-id",
        "A node's id breaks the grammar of ids.";
    BadInputName = "bad-input-name",
        "The name of an input is one that no token could hold.";
    BadKey = "bad-key",
        "A key of a map is a list or a map.";
    BadLaneName = "bad-lane-name",
        "A lane's name breaks the grammar of ids, or git's rules for a part of a branch name.";
    BadMerge = "bad-merge",
        "The merge key `<<` has a value that is neither a map nor a list of maps.";
    BadRegex = "bad-regex",
        "A regular expression can't be read.";
    BadVariable = "bad-variable",
        "A name that no variable can have.";
    CwdWithWorktree = "cwd-with-worktree",
        "A node has two places to work in.";
    Cycle = "cycle",
        "Nodes wait for each other; the path is shown.";
    DuplicateDependency = "duplicate-dependency",
        "A node depends on the same node twice.";
    DuplicateId = "duplicate-id",
        "Two nodes have one id, or ids that differ in case only.";
    DuplicateInput = "duplicate-input",
        "An input is declared twice.";
    DuplicateKey = "duplicate-key",
        "A key comes twice in one map.";
    DuplicateLane = "duplicate-lane",
        "Two lanes have names that differ in case only.";
    EmptyFile = "empty-file",
        "There is nothing in the file but blank lines and comments.";
    EmptyValue = "empty-value",
        "A value that can't be empty is.";
    ExpansionTooLarge = "expansion-too-large",
        "What fragments are bound to makes more text than a graph may hold.";
    FeedbackInCommand = "feedback-in-command",
        "Feedback would become part of a command line: shell injection.";
    FeedbackLeftEarly = "feedback-left-early",
        "A node outside of a feedback arc depends on one inside that is not the arc's end.";
    FeedbackOutsideArc = "feedback-outside-arc",
        "A `feedback` token stands where no feedback arrives.";
    FeedbackOverGate = "feedback-over-gate",
        "A feedback arc would run a gate again.";
    FeedbackOverlap = "feedback-overlap",
        "Two feedback arcs would run one node again.";
    FeedbackTarget = "feedback-target",
        "Feedback runs again from something that is no ancestor, or no single node.";
    FileTooLarge = "file-too-large",
        "The file has more than 8 MiB.";
    ForAgentsOnly = "for-agents-only",
        "A command has a key that only an agent heeds.";
    FragmentBody = "fragment-body",
        "A fragment has not exactly one of `node` and `nodes`, or holds a key of the node that cites it.";
    FragmentCycle = "fragment-cycle",
        "A fragment cites itself, directly or through others.";
    FragmentDepth = "fragment-depth",
        "Fragments cite each other too deep.";
    FragmentName = "fragment-name",
        "A fragment calls itself something else than its file.";
    GateWithMore = "gate-with-more",
        "A gate has keys of something that runs.";
    MissingKey = "missing-key",
        "A key that must be there is not.";
    MoreProblems = "more-problems",
        "There were more problems in the file than are kept; this one, the last, says how many.";
    NoDefault = "no-default",
        "`defaults` holds a key that belongs to one node.";
    NoNodes = "no-nodes",
        "`nodes` is empty.";
    NoWork = "no-work",
        "A node has nothing to do.";
    NotAnAncestor = "not-an-ancestor",
        "A token names a node, or a lane, that the node does not wait for.";
    NotText = "not-text",
        "The file is not UTF-8, or holds a character that no text file has.";
    PathLeavesRepository = "path-leaves-repository",
        "A path that must lie inside the repository does not.";
    PlannedRefused = "planned-refused",
        "A planned graph asks for what it may not have; these come alone, before any other problem.";
    PromptBesideUse = "prompt-beside-use",
        "A node that cites a fragment has a `prompt` of its own.";
    ReservedLaneName = "reserved-lane-name",
        "A lane has a name that means something else.";
    ReservedVariable = "reserved-variable",
        "`env` sets a variable that is omg's own.";
    RetryWithoutMax = "retry-without-max",
        "A `retry` that never retries.";
    RunAndPrompt = "run-and-prompt",
        "A node would be a command and an agent.";
    SameVariable = "same-variable",
        "Two nodes that a command waits for share one `OMG_ARTIFACT_…` variable.";
    SecondDocument = "second-document",
        "The file holds several YAML documents.";
    SessionFromOutside = "session-from-outside",
        "A node inside of a feedback arc goes on with a session from outside of it.";
    SessionOfCommand = "session-of-command",
        "A command is asked to go on with a session.";
    SessionParents = "session-parents",
        "A session can't be told: not one dependency, or one that has none.";
    SubgraphKey = "subgraph-key",
        "A node that cites a fragment of several nodes has a key that is for a single one.";
    TabIndentation = "tab-indentation",
        "A tab is used as indentation, which YAML does not allow.";
    TokenWithoutLane = "token-without-lane",
        "A token names the node's lane, and it has none.";
    TooDeep = "too-deep",
        "Lists and maps are nested too deep.";
    TooManyNodes = "too-many-nodes",
        "There are more nodes than a graph may have, those that fragments make among them.";
    TooManyValues = "too-many-values",
        "The file holds more values than any graph does.";
    UnboundSubstitution = "unbound-substitution",
        "A point of a fragment is not bound by the node that cites it.";
    UnclosedToken = "unclosed-token",
        "A `{{` has no `}}`.";
    UndeclaredSubstitution = "undeclared-substitution",
        "A fragment uses a point that its `substitutions` do not list.";
    UnknownAnchor = "unknown-anchor",
        "A YAML alias has no anchor before it.";
    UnknownFragment = "unknown-fragment",
        "A node cites a fragment that is not there.";
    UnknownInput = "unknown-input",
        "A token names an input that the graph does not declare.";
    UnknownKey = "unknown-key",
        "A key means nothing where it stands.";
    UnknownLane = "unknown-lane",
        "A token names a lane in which no node works.";
    UnknownNode = "unknown-node",
        "A name is no node's of this graph.";
    UnknownRuntime = "unknown-runtime",
        "A name is no runtime's: neither built in nor described in `runtimes`.";
    UnknownSubstitution = "unknown-substitution",
        "`with` binds a point that the fragment does not have.";
    UnknownToken = "unknown-token",
        "What stands between `{{` and `}}` is no token.";
    UnknownValue = "unknown-value",
        "A value is none of the words that its key takes.";
    Unreadable = "unreadable",
        "The file can't be read, or is no file.";
    UnusedLane = "unused-lane",
        "`lanes` describes a lane that no node names.";
    WithWithoutUse = "with-without-use",
        "`with` stands in a node that cites no fragment.";
    WrongDuration = "wrong-duration",
        "A value is no duration.";
    WrongSize = "wrong-size",
        "A value is no size.";
    WrongType = "wrong-type",
        "A value is of another type than its key takes.";
    WrongValue = "wrong-value",
        "A value is of the right type and out of bounds.";
    YamlSyntax = "yaml-syntax",
        "The file is not YAML from this place on.";
    YamlTag = "yaml-tag",
        "A YAML tag means nothing in a graph.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl PartialEq<str> for Code {
    fn eq(&self, word: &str) -> bool {
        self.word() == word
    }
}

impl PartialEq<&str> for Code {
    fn eq(&self, word: &&str) -> bool {
        self.word() == *word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_words_in_order_each_once() {
        let words: Vec<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        assert!(words.windows(2).all(|pair| pair[0] < pair[1]), "sort the list by its words: {words:?}");
        let is_kebab = |word: &&str| word.split('-').all(|part| part.bytes().all(|b| b.is_ascii_lowercase()));
        assert!(words.iter().all(is_kebab), "{words:?}");
    }
}
