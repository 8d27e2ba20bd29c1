//! The keys that a graph file may hold, once: the grammar reads by them, `planned` judges by them and
//! `schema` describes them, each without a wildcard.

macro_rules! keys {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name {
            $($variant,)+
        }

        impl $name {
            /// Every key, in the order of DESIGN.md.
            pub const ALL: &[$name] = &[$($name::$variant,)+];

            /// Returns the key as it is written.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            /// Returns every key as it is written.
            pub fn words() -> impl Iterator<Item = &'static str> + Clone {
                $name::ALL.iter().map(|key| key.word())
            }

            /// Returns the key that is written `word`.
            pub fn of(word: &str) -> Option<$name> {
                match word {
                    $($word => Some($name::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

keys! {
    /// A key at the top of a graph file.
    GraphKey {
        Name = "name",
        Version = "version",
        Description = "description",
        Inputs = "inputs",
        Env = "env",
        Shell = "shell",
        Concurrency = "concurrency",
        OnFail = "on_fail",
        Base = "base",
        Lanes = "lanes",
        Provision = "provision",
        Overlay = "overlay",
        Preflight = "preflight",
        Cleanup = "cleanup",
        Grace = "grace",
        OutputMax = "output_max",
        PassEnv = "pass_env",
        Identity = "identity",
        Runtime = "runtime",
        Runtimes = "runtimes",
        BudgetUsd = "budget_usd",
        OnFault = "on_fault",
        Defaults = "defaults",
        Nodes = "nodes",
    }
}

keys! {
    /// A key of a node, or of `defaults`.
    NodeKey {
        Id = "id",
        Type = "type",
        Description = "description",
        Run = "run",
        Prompt = "prompt",
        DependsOn = "depends_on",
        Worktree = "worktree",
        Access = "access",
        Cwd = "cwd",
        Env = "env",
        Timeout = "timeout",
        SuccessCheck = "success_check",
        Retry = "retry",
        Feedback = "feedback",
        Handoff = "handoff",
        AllowedTools = "allowed_tools",
        PermissionMode = "permission_mode",
        Agent = "agent",
        BudgetUsd = "budget_usd",
        Runtime = "runtime",
        Model = "model",
        Protect = "protect",
        Scope = "scope",
        ExpectChanges = "expect_changes",
        OnFault = "on_fault",
        Grace = "grace",
        OutputMax = "output_max",
        Use = "use",
        With = "with",
    }
}

keys! {
    /// A key of an input.
    InputKey {
        Description = "description",
        Default = "default",
    }
}

keys! {
    /// A key of `identity`.
    IdentityKey {
        Name = "name",
        Email = "email",
    }
}

keys! {
    /// A key of `preflight`.
    PreflightKey {
        Tools = "tools",
        Env = "env",
        MinFree = "min_free",
        Identity = "identity",
        Baseline = "baseline",
    }
}

keys! {
    /// A key of an entry of `lanes`.
    LaneKey {
        Base = "base",
        Provision = "provision",
        Overlay = "overlay",
        Ports = "ports",
        Cleanup = "cleanup",
    }
}

keys! {
    /// A key of `provision`.
    ProvisionKey {
        Command = "command",
        Timeout = "timeout",
        Retry = "retry",
        Roots = "roots",
        When = "when",
        MaxParallel = "max_parallel",
        Inputs = "inputs",
        SkipIf = "skip_if",
        ReceiptFile = "receipt_file",
    }
}

keys! {
    /// A key of `overlay`.
    OverlayKey {
        Paths = "paths",
        IncludeFile = "include_file",
    }
}

keys! {
    /// A key of an entry of `depends_on`.
    DependencyKey {
        Id = "id",
        On = "on",
    }
}

keys! {
    /// A key of `success_check`.
    CheckKey {
        ExitZero = "exit_zero",
        ResultMatches = "result_matches",
        Verify = "verify",
    }
}

keys! {
    /// A key of `verify`.
    VerifyKey {
        Command = "command",
        Cwd = "cwd",
        Timeout = "timeout",
        ExpectExit = "expect_exit",
        OutputMatches = "output_matches",
    }
}

keys! {
    /// A key of `retry`.
    RetryKey {
        Max = "max",
        On = "on",
        Backoff = "backoff",
    }
}

keys! {
    /// A key of an entry of `runtimes`.
    RuntimeKey {
        Command = "command",
        Prompt = "prompt",
        Result = "result",
        Resume = "resume",
    }
}

keys! {
    /// A key of `feedback`.
    FeedbackKey {
        Rerun = "rerun",
        Max = "max",
    }
}

impl NodeKey {
    /// Returns whether only an agent heeds this key.
    pub fn is_for_agents(self) -> bool {
        matches!(
            self,
            NodeKey::Prompt
                | NodeKey::Handoff
                | NodeKey::AllowedTools
                | NodeKey::PermissionMode
                | NodeKey::Agent
                | NodeKey::BudgetUsd
                | NodeKey::Runtime
                | NodeKey::Model
        )
    }

    /// Returns whether a gate, which runs nothing, can have this key.
    pub fn is_for_gates(self) -> bool {
        matches!(self, NodeKey::Id | NodeKey::Type | NodeKey::Description | NodeKey::DependsOn)
    }

    /// Returns whether the key names one node or its place, so that it can't be a default.
    pub fn is_own(self) -> bool {
        matches!(self, NodeKey::Id | NodeKey::DependsOn | NodeKey::Feedback | NodeKey::Use | NodeKey::With)
    }
}
