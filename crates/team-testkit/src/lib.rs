//! Test support: workspaces, fake clock, fake terminal, model stub, failpoints
