use proptest::prelude::*;

use crate::support::*;

/// A log of appends with the given sizes, and where each of them ends.
fn log_of(world: &World, appends: &[u8]) -> Vec<(usize, u64)> {
    let log = world.open();
    let mut ends = vec![(world.bytes().len(), 0)];
    let mut id = 0;
    for count in appends {
        let drafts = (0..*count).map(|_| {
            id += 1;
            text(id, &"\u{fc}x".repeat(usize::try_from(id % 5).unwrap_or(0) * 9))
        });
        append(&log, drafts.collect());
        ends.push((world.bytes().len(), id));
    }
    ends
}

#[derive(Debug, Clone)]
enum Harm {
    Cut,
    Zero,
    Garbage(Vec<u8>),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        Just(Harm::Cut),
        Just(Harm::Zero),
        prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'{')], 0..300)
            .prop_map(Harm::Garbage),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn harm_to_the_tail_loses_no_append_before_it(
        appends in prop::collection::vec(1..4u8, 1..6),
        place in 0.0..1.0f64,
        harm in harm(),
        forget in any::<bool>(),
    ) {
        let world = World::new();
        let ends = log_of(&world, &appends);
        let bytes = world.bytes();
        let first = ends[0].0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "any place will do")]
        let at = first + ((bytes.len() - first) as f64 * place) as usize;
        let mut harmed = bytes[..at].to_vec();
        match harm {
            Harm::Cut => {}
            Harm::Zero => harmed.resize(bytes.len(), 0),
            Harm::Garbage(garbage) => harmed.extend(garbage),
        }
        world.put(&harmed);
        if forget {
            // As after a power failure, or in a copy: nothing remembers where the log ended.
            std::fs::remove_file(world.places().lock()).unwrap();
        }
        let survivors = ends.iter().rev().find(|(end, _)| *end <= at).map_or(0, |(_, id)| *id);
        let before = read_all(&world.open());
        prop_assert_eq!(ids(&before), (1..=survivors).collect::<Vec<_>>());
        append(&world.open(), vec![note(1000)]);
        append(&world.open(), vec![note(1001)]);
        let lines = read_all(&world.open());
        let expected: Vec<u64> = (1..=survivors).chain([1000, 1001]).collect();
        prop_assert_eq!(ids(&lines), expected);
        prop_assert!(lines.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        if forget {
            prop_assert!(world.open().verify().unwrap().is_clean());
        }
    }

    #[test]
    fn one_flipped_byte_anywhere_is_noticed(place in 0.0..1.0f64, bit in 0..8u32, in_sealed in any::<bool>()) {
        let world = World::new();
        let log = world.open_with(|options| options.segment_bytes = 900);
        append_notes(&log, 1..7);
        append(&log, vec![note(7), note(8)]);
        let path = if in_sealed { world.places().sealed(1) } else { world.places().active() };
        let mut bytes = std::fs::read(&path).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "any place will do")]
        let at = (bytes.len() as f64 * place) as usize;
        bytes[at] ^= 1 << bit;
        std::fs::write(&path, bytes).unwrap();
        let noticed = match Log::open(world.places(), options()).and_then(|log| log.verify()) {
            Ok(verified) => !verified.is_clean(),
            Err(_) => true,
        };
        prop_assert!(noticed, "byte {at} bit {bit} of {path:?}");
    }

    #[test]
    fn readers_that_stop_anywhere_see_the_same_lines(
        steps in prop::collection::vec((1..5u64, any::<bool>(), any::<bool>()), 1..20),
    ) {
        let world = World::new();
        let log = world.open_with(|options| options.segment_bytes = 700);
        let reader = world.open();
        let mut cursor = reader.cursor_start().unwrap();
        let mut seen = Vec::new();
        let mut id = 0;
        for (count, look, torn) in steps {
            let drafts = (0..count).map(|_| { id += 1; note(id) }).collect();
            append(&log, drafts);
            if torn {
                let mut bytes = world.bytes();
                bytes.extend_from_slice(b"{\"seq\":99,\n\0\0x");
                // In place, as a writer does, so that cursors stay true.
                std::fs::write(world.places().active(), bytes).unwrap();
            }
            if look {
                seen.extend(read(&reader, &mut cursor));
            }
        }
        seen.extend(read(&reader, &mut cursor));
        prop_assert_eq!(ids(&seen), (1..=id).collect::<Vec<_>>());
        prop_assert_eq!(seen, read_all(&world.open()));
    }
}
