import Foundation

/// Packs data with gzip (RFC 1952). Returns `nil` on systems without a compressor in Foundation.
func gzip(_ data: Data) -> Data? {
    #if canImport(FoundationNetworking)
    return nil
    #else
    // `zlib` of NSData is raw deflate, without the frame of zlib.
    guard let deflated = try? (data as NSData).compressed(using: .zlib) else { return nil }
    var packed = Data([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])
    packed.append(deflated as Data)
    for word in [crc32(data), UInt32(truncatingIfNeeded: data.count)] {
        withUnsafeBytes(of: word.littleEndian) { packed.append(contentsOf: $0) }
    }
    return packed
    #endif
}

/// The checksum of gzip: the reflected polynomial 0xedb88320.
func crc32(_ data: Data) -> UInt32 {
    ~data.reduce(UInt32.max) { sum, byte in
        (sum >> 8) ^ crc32Table[Int((sum ^ UInt32(byte)) & 0xff)]
    }
}

private let crc32Table: [UInt32] = (0..<256).map { (index: UInt32) in
    (0..<8).reduce(index) { value, _ in
        value & 1 == 1 ? (value >> 1) ^ 0xedb8_8320 : value >> 1
    }
}
