//! TEAM.md and role files into a spec, with errors that point at the line
