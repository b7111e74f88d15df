//! The size of a transport block (3GPP TS 38.214 section 5.1.3.2, for the uplink section 6.1.4.2), and what
//! it follows from: resource blocks, modulation and coding scheme, layers and symbols.

/// Bandwidths in MHz and resource blocks, by numerology: TS 38.101-1 table 5.3.2-1, and TS 38.101-2 table
/// 5.3.2-1 for 200 and 400 MHz and for numerology 3.
const RESOURCE_BLOCKS: [&[(u32, u32)]; 4] = [
    &[
        (5, 25),
        (10, 52),
        (15, 79),
        (20, 106),
        (25, 133),
        (30, 160),
        (35, 188),
        (40, 216),
        (45, 242),
        (50, 270),
    ],
    &[
        (5, 11),
        (10, 24),
        (15, 38),
        (20, 51),
        (25, 65),
        (30, 78),
        (35, 92),
        (40, 106),
        (45, 119),
        (50, 133),
        (60, 162),
        (70, 189),
        (80, 217),
        (90, 245),
        (100, 273),
    ],
    &[
        (10, 11),
        (15, 18),
        (20, 24),
        (25, 31),
        (30, 38),
        (35, 44),
        (40, 51),
        (45, 58),
        (50, 65),
        (60, 79),
        (70, 93),
        (80, 107),
        (90, 121),
        (100, 135),
        (200, 264),
    ],
    &[(50, 32), (100, 66), (200, 132), (400, 264)],
];

/// TS 38.214 table 5.1.3.1-2: bits per symbol, and the code rate times 2048.
const MCS: [(u32, u32); 28] = [
    (2, 240),
    (2, 386),
    (2, 616),
    (2, 898),
    (2, 1_204),
    (4, 756),
    (4, 868),
    (4, 980),
    (4, 1_106),
    (4, 1_232),
    (4, 1_316),
    (6, 932),
    (6, 1_034),
    (6, 1_134),
    (6, 1_232),
    (6, 1_332),
    (6, 1_438),
    (6, 1_544),
    (6, 1_644),
    (6, 1_746),
    (8, 1_365),
    (8, 1_422),
    (8, 1_508),
    (8, 1_594),
    (8, 1_682),
    (8, 1_770),
    (8, 1_833),
    (8, 1_896),
];

/// The largest index of that table.
pub(super) const MOST_MCS: u32 = MCS.len() as u32 - 1;

/// TS 38.214 table 5.1.3.2-1: the sizes of blocks with up to 3824 bits.
const SMALL_SIZES: [u64; 93] = [
    24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 176, 184, 192, 208,
    224, 240, 256, 272, 288, 304, 320, 336, 352, 368, 384, 408, 432, 456, 480, 504, 528, 552, 576, 608, 640,
    672, 704, 736, 768, 808, 848, 888, 928, 984, 1_032, 1_064, 1_128, 1_160, 1_192, 1_224, 1_256, 1_288,
    1_320, 1_352, 1_416, 1_480, 1_544, 1_608, 1_672, 1_736, 1_800, 1_864, 1_928, 2_024, 2_088, 2_152, 2_216,
    2_280, 2_408, 2_472, 2_536, 2_600, 2_664, 2_728, 2_792, 2_856, 2_976, 3_104, 3_240, 3_368, 3_496, 3_624,
    3_752, 3_824,
];

/// Carriers of a resource block, and resource elements of a symbol in it that are reference signals: one
/// symbol of type 1 without data beside it.
const CARRIERS: u32 = 12;
const REFERENCE_ELEMENTS: u32 = 12;

/// The most resource elements of a resource block that count (TS 38.214 section 5.1.3.2).
const MOST_ELEMENTS: u32 = 156;

/// The resource blocks of a bandwidth.
///
/// # Errors
/// One sentence with key, value and what is allowed.
pub(super) fn resource_blocks(numerology: u32, bandwidth_mhz: u32, key: &str) -> Result<u32, String> {
    let rows = RESOURCE_BLOCKS[numerology as usize];
    if let Some((_, blocks)) = rows.iter().find(|(mhz, _)| *mhz == bandwidth_mhz) {
        return Ok(*blocks);
    }
    let allowed: Vec<_> = rows.iter().map(|(mhz, _)| mhz.to_string()).collect();
    Err(format!(
        "{key}.bandwidth_mhz is {bandwidth_mhz}, allowed with numerology {numerology} is one of {}",
        allowed.join(", ")
    ))
}

/// The bytes of a block that has this many symbols, with those of reference signals; 0 if none has place.
pub(super) fn block_bytes(symbols: u32, resource_blocks: u32, mcs: u32, layers: u32) -> u64 {
    let elements = (CARRIERS * symbols).saturating_sub(REFERENCE_ELEMENTS).min(MOST_ELEMENTS);
    let (bits, rate) = MCS[mcs as usize];
    size_bits(u64::from(elements * resource_blocks) * u64::from(bits * layers), u64::from(rate)) / 8
}

/// The size in bits for so many bits on the air and a code rate of `rate` / 2048. All in whole numbers:
/// `N_info` is `raw * rate / 2048`.
fn size_bits(raw: u64, rate: u64) -> u64 {
    const ONE: u64 = 2_048;
    let scaled = raw * rate;
    let info = scaled / ONE;
    if info == 0 {
        return 0;
    }
    if scaled <= 3_824 * ONE {
        let step = 1 << info.ilog2().saturating_sub(6).max(3);
        let wanted = (info / step * step).max(24);
        return SMALL_SIZES[SMALL_SIZES.partition_point(|size| *size < wanted)];
    }
    let step = 1_u64 << ((info - 24).ilog2() - 5);
    // Rounded to the nearest step, halves up.
    let wanted = ((scaled - 24 * ONE + step * ONE / 2) / (step * ONE) * step).max(3_840);
    let code_blocks = if rate * 4 <= ONE {
        (wanted + 24).div_ceil(3_816)
    } else if wanted > 8_424 {
        (wanted + 24).div_ceil(8_424)
    } else {
        1
    };
    8 * code_blocks * (wanted + 24).div_ceil(8 * code_blocks) - 24
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest block of NR, 1277992 bits, is that of 273 resource blocks, 4 layers and MCS 27. The others
    /// were computed from the section's text with floating-point numbers.
    #[test]
    fn sizes_are_those_of_the_specification() {
        assert_eq!(block_bytes(14, 273, 27, 4) * 8, 1_277_992);
        for (symbols, blocks, mcs, layers, bits) in SIZES {
            assert_eq!(
                block_bytes(symbols, blocks, mcs, layers) * 8,
                bits,
                "{symbols} {blocks} {mcs} {layers}"
            );
        }
    }

    /// Symbols, resource blocks, MCS, layers and bits.
    const SIZES: [(u32, u32, u32, u32, u64); 13] = [
        (13, 106, 20, 2, 163_976),
        (9, 106, 20, 2, 108_552),
        (14, 106, 16, 1, 69_672),
        (2, 106, 16, 1, 5_376),
        (14, 53, 16, 1, 34_816),
        (2, 1, 0, 1, 24),
        (14, 1, 5, 1, 224),
        (10, 4, 9, 1, 1_032),
        (14, 25, 1, 1, 1_480),
        (14, 273, 0, 1, 9_984),
        (14, 11, 12, 2, 10_504),
        (5, 8, 10, 1, 984),
        (14, 264, 27, 8, 2_426_088),
    ];

    #[test]
    fn sizes_grow_with_everything_and_are_whole_bytes() {
        assert!(SMALL_SIZES.windows(2).all(|pair| pair[0] < pair[1]));
        for mcs in 0..=MOST_MCS {
            for symbols in 0..14 {
                for blocks in [1, 2, 11, 106, 272] {
                    let here = block_bytes(symbols, blocks, mcs, 1);
                    assert!(here <= block_bytes(symbols + 1, blocks, mcs, 1));
                    assert!(here <= block_bytes(symbols, blocks + 1, mcs, 1));
                    assert!(here <= block_bytes(symbols, blocks, mcs, 2));
                    assert_eq!(here == 0, symbols < 2, "{symbols}");
                }
            }
        }
    }

    #[test]
    fn a_bandwidth_has_its_resource_blocks() {
        assert_eq!(resource_blocks(1, 40, "radio"), Ok(106));
        assert_eq!(resource_blocks(0, 40, "radio"), Ok(216));
        assert_eq!(
            resource_blocks(3, 40, "radio").unwrap_err(),
            "radio.bandwidth_mhz is 40, allowed with numerology 3 is one of 50, 100, 200, 400"
        );
    }
}
