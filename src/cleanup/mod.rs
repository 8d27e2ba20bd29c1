//! What may be deleted, and what was.
