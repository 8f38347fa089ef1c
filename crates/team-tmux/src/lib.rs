//! tmux: server, panes, typing, screens, exits
