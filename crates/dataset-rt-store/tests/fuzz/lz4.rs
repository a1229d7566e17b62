//! A second LZ4 block decoder, written from the description of the block format.

/// The payload, if the block gives exactly this many bytes.
pub(crate) fn decode(block: &[u8], payload_bytes: usize) -> Option<Vec<u8>> {
    let mut input = block.iter().copied();
    let mut payload = Vec::new();
    loop {
        let token = input.next()?;
        let literals = length(token >> 4, &mut input)?;
        if literals > input.len() || payload.len() + literals > payload_bytes {
            return None;
        }
        payload.extend(input.by_ref().take(literals));
        // The last sequence has literals only.
        let Some(low) = input.next() else { break };
        let offset = usize::from(u16::from_le_bytes([low, input.next()?]));
        let matched = length(token & 15, &mut input)? + 4;
        if offset == 0 || offset > payload.len() || payload.len() + matched > payload_bytes {
            return None;
        }
        for _ in 0..matched {
            payload.push(payload[payload.len() - offset]);
        }
    }
    (payload.len() == payload_bytes).then_some(payload)
}

/// Four bits, continued by bytes as long as these are 255.
fn length(bits: u8, input: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut length = usize::from(bits);
    if bits == 15 {
        loop {
            let more = input.next()?;
            length += usize::from(more);
            if more < 255 {
                break;
            }
        }
    }
    Some(length)
}
