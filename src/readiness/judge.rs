//! Facts → ready or not. Pure.

/// What a lane needs and what the disk has: bytes and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Files and folders.
    pub inodes: u64,
}

/// Left free whatever the lanes take, so that logs and the journal still fit.
pub const MARGIN: Amount = Amount { bytes: 64 << 20, inodes: 1000 };

/// Returns how many of `lanes`, the first ones, fit into `free` at once.
pub fn lanes_that_fit(lanes: &[Amount], free: Amount) -> usize {
    let mut left = Amount {
        bytes: free.bytes.saturating_sub(MARGIN.bytes),
        inodes: free.inodes.saturating_sub(MARGIN.inodes),
    };
    for (at, lane) in lanes.iter().enumerate() {
        if lane.bytes > left.bytes || lane.inodes > left.inodes {
            return at;
        }
        left.bytes -= lane.bytes;
        left.inodes -= lane.inodes;
    }
    lanes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: Amount = Amount { bytes: 10 << 20, inodes: 100 };

    #[track_caller]
    fn check(bytes: u64, inodes: u64, expected: usize) {
        assert_eq!(lanes_that_fit(&[LANE; 3], Amount { bytes, inodes }), expected);
    }

    #[test]
    fn bytes_and_inodes_both_count() {
        check(u64::MAX, u64::MAX, 3);
        check((64 << 20) + (25 << 20), u64::MAX, 2);
        check(u64::MAX, 1150, 1);
        check(0, u64::MAX, 0);
        check(u64::MAX, 0, 0);
    }
}
