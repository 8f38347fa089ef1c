//! Lines out of a stream of bytes, with a bound on their length.

/// Collects bytes until a line is whole.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    most: usize,
    /// The rest of a line that was too long is being thrown away.
    skipping: bool,
}

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Without its end.
    Whole(Vec<u8>),
    /// Longer than allowed, and gone.
    TooLong,
}

impl Lines {
    pub(crate) fn new(most: usize) -> Self {
        Self { buffer: Vec::new(), most, skipping: false }
    }

    /// Takes bytes and returns the lines that they end.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = bytes.iter().position(|it| *it == b'\n') {
            let (head, rest) = bytes.split_at(end);
            bytes = &rest[1..];
            self.add(head);
            if std::mem::take(&mut self.skipping) {
                lines.push(Line::TooLong);
                continue;
            }
            let mut line = std::mem::take(&mut self.buffer);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            lines.push(Line::Whole(line));
        }
        self.add(bytes);
        lines
    }

    /// Returns what came after the last end of a line.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty()).then_some(rest)
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.buffer.len() + bytes.len() > self.most {
            self.buffer = Vec::new();
            self.skipping = true;
            return;
        }
        self.buffer.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_bytes_arrive(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1_usize..20, 1..20),
        ) {
            let clean = |line: &Vec<u8>| -> Vec<u8> {
                line.iter().copied().filter(|it| *it != b'\n' && *it != b'\r').collect()
            };
            let expected: Vec<_> = lines
                .iter()
                .map(clean)
                .map(|it| if it.len() > 30 { Line::TooLong } else { Line::Whole(it) })
                .collect();
            let bytes: Vec<u8> = lines.iter().map(clean).flat_map(|it| [it, vec![b'\n']].concat()).collect();
            let mut reader = Lines::new(30);
            let mut found = Vec::new();
            let (mut at, mut turn) = (0, 0);
            while at < bytes.len() {
                let end = (at + cuts[turn % cuts.len()]).min(bytes.len());
                found.extend(reader.take(&bytes[at..end]));
                (at, turn) = (end, turn + 1);
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(reader.rest(), None);
        }
    }

    #[test]
    fn a_carriage_return_belongs_to_the_end_of_the_line() {
        assert_eq!(Lines::new(10).take(b"a\r\n\r\n"), [Line::Whole(b"a".to_vec()), Line::Whole(Vec::new())]);
    }
}
