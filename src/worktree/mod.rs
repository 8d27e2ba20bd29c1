//! Lanes: git worktrees, seen and made.
