//! Why a report could not be written.

/// Why a report could not be written. Every summary can be rendered, so both are rare.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The document could not be serialized.
    #[error("cannot write the report as JSON")]
    Json {
        /// What the serializer says.
        #[source]
        source: serde_json::Error,
    },
    /// A figure could not be drawn.
    #[error("cannot draw the figure {figure:?}: {reason}")]
    Plot {
        /// Title of the figure.
        figure: String,
        /// What the drawing library says.
        reason: String,
    },
}
