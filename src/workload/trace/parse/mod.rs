//! Pieces that readers share.

pub(crate) mod columns;
pub(crate) mod decimal;
pub(crate) mod instant;
pub(crate) mod json;
