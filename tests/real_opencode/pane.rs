//! What a person does in an agent's pane, what is asked there, and what goes wrong with the model.
