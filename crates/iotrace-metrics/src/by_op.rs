//! One value for each operation that occurs, found without a search.

use iotrace_model::Op;

/// Values by operation.
#[derive(Clone, Debug)]
pub(crate) struct ByOp<T>([Option<T>; Op::ALL.len()]);

impl<T> Default for ByOp<T> {
    fn default() -> Self {
        Self(Op::ALL.map(|_| None))
    }
}

impl<T> ByOp<T> {
    /// The value of an operation, made when it occurs for the first time.
    pub(crate) fn entry(&mut self, op: Op, make: impl FnOnce() -> T) -> &mut T {
        // The operations are numbered from 0 in the order of `Op::ALL`; a test says so.
        self.0[op as usize].get_or_insert_with(make)
    }

    pub(crate) fn get(&self, op: Op) -> Option<&T> {
        self.0[op as usize].as_ref()
    }

    /// In the order of `Op::ALL`.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Op, &T)> {
        Op::ALL.into_iter().zip(&self.0).filter_map(|(op, value)| Some((op, value.as_ref()?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_own_place_in_their_order() {
        let mut names = ByOp::default();
        for op in Op::ALL.into_iter().rev() {
            names.entry(op, || op.name());
        }
        let all: Vec<_> = names.iter().map(|(op, name)| (op, *name)).collect();
        assert_eq!(all, Op::ALL.map(|op| (op, op.name())));
    }
}
