//! Results: metrics, tables and JSON from an event stream.
