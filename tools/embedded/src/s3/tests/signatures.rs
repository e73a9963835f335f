//! Signatures, with the examples that AWS publishes ("Authenticating Requests (AWS Signature Version 4)" in the API reference
//! of Amazon S3).

use crate::s3::chunked::ChunkDecoder;
use crate::s3::error::S3Error;
use crate::s3::signature::{AccessKeys, SignedBody};
use hyper::Request;
use hyper::http::request::Parts;
use std::collections::HashMap;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

const SENT: OffsetDateTime = datetime!(2013-05-24 00:00 UTC);
const NO_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");

fn keys(secret: &str) -> AccessKeys {
    AccessKeys(HashMap::from([("AKIAIOSFODNN7EXAMPLE".to_owned(), secret.to_owned())]))
}

fn example_keys() -> AccessKeys {
    keys("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
}

/// Returns a request of the examples with its signature.
fn request(method: &str, uri: &str, signature: &str, body: &str, headers: &[(&str, &str)]) -> Parts {
    let mut names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
    names.extend(["x-amz-content-sha256", "x-amz-date"]);
    names.sort_unstable();
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders={},Signature={signature}",
        names.join(";")
    );
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .header("authorization", authorization)
        .header("x-amz-date", "20130524T000000Z")
        .header("x-amz-content-sha256", body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn get_range() -> Parts {
    let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
    request("GET", "/test.txt", signature, NO_BODY, &[HOST, ("range", "bytes=0-9")])
}

#[test]
fn published_examples_are_verified() {
    let lifecycle = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
    let list = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
    for request in [
        get_range(),
        request("GET", "/?lifecycle", lifecycle, NO_BODY, &[HOST]),
        request("GET", "/?prefix=J&max-keys=2", list, NO_BODY, &[HOST]),
    ] {
        for skew in [-15, 0, 15] {
            let signed = example_keys().verify(&request, SENT + Duration::minutes(skew));
            assert!(matches!(signed, Ok(SignedBody::Sha256(_))), "{}: {signed:?}", request.uri);
        }
    }
}

#[test]
fn a_request_that_was_changed_is_refused() {
    let verify = |request: &Parts| example_keys().verify(request, SENT).map(drop);
    let changed = |change: fn(&mut Parts)| {
        let mut request = get_range();
        change(&mut request);
        verify(&request)
    };
    verify(&get_range()).unwrap();
    let changes: [fn(&mut Parts); 6] = [
        |request| request.method = hyper::Method::PUT,
        |request| request.uri = "/test.txt2".parse().unwrap(),
        |request| request.uri = "/test.txt?a".parse().unwrap(),
        |request| _ = request.headers.insert("range", "bytes=0-10".parse().unwrap()),
        |request| _ = request.headers.append("range", "bytes=0-10".parse().unwrap()),
        |request| _ = request.headers.insert("x-amz-content-sha256", "UNSIGNED-PAYLOAD".parse().unwrap()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let refused = changed(change);
        assert!(matches!(refused, Err(S3Error::SignatureDoesNotMatch)), "{number}: {refused:?}");
    }
    let added = changed(|request| _ = request.headers.insert("x-amz-meta-a", "1".parse().unwrap()));
    assert!(matches!(added, Err(S3Error::AccessDenied(_))), "{added:?}");
    let unsigned = changed(|request| _ = request.headers.remove("authorization"));
    assert!(matches!(unsigned, Err(S3Error::AccessDenied(_))), "{unsigned:?}");
    let other = changed(|request| _ = request.headers.insert("authorization", "Basic YTpi".parse().unwrap()));
    assert!(matches!(other, Err(S3Error::AuthorizationHeaderMalformed)), "{other:?}");
}

#[test]
fn other_keys_and_times_are_refused() {
    let request = get_range();
    let refused = keys("other").verify(&request, SENT);
    assert!(matches!(refused, Err(S3Error::SignatureDoesNotMatch)), "{refused:?}");
    let refused = AccessKeys(HashMap::new()).verify(&request, SENT);
    assert!(matches!(refused, Err(S3Error::InvalidAccessKeyId)), "{refused:?}");
    for skew in [-16, 16, 60 * 24 * 365] {
        let refused = example_keys().verify(&request, SENT + Duration::minutes(skew));
        assert!(matches!(refused, Err(S3Error::RequestTimeTooSkewed)), "{skew}: {refused:?}");
    }
}

/// Decodes a body of 65 KiB in signed chunks.
fn decode_signed_chunks(change: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, S3Error> {
    let headers = [
        ("content-encoding", "aws-chunked"),
        ("content-length", "66824"),
        ("host", "s3.amazonaws.com"),
        ("x-amz-decoded-content-length", "66560"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ];
    let signature = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
    let streaming = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let request = request("PUT", "/examplebucket/chunkObject.txt", signature, streaming, &headers);
    let SignedBody::Chunks(Some(signer)) = example_keys().verify(&request, SENT)? else {
        panic!("chunks are signed");
    };
    let signatures = [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ];
    let chunks = [65_536, 1_024, 0].into_iter().zip(signatures).map(|(length, signature)| {
        [
            format!("{length:x};chunk-signature={signature}\r\n").into_bytes(),
            vec![b'a'; length],
            b"\r\n".to_vec(),
        ]
        .concat()
    });
    let mut encoded = chunks.collect::<Vec<_>>().concat();
    change(&mut encoded);
    let (mut decoder, mut decoded) = (ChunkDecoder::new(Some(signer)), Vec::new());
    for bytes in encoded.chunks(4_096) {
        decoder.decode(bytes, |chunk| {
            decoded.extend_from_slice(chunk);
            Ok(())
        })?;
    }
    decoder.finish()?;
    Ok(decoded)
}

#[test]
fn published_chunks_are_verified_and_changed_ones_refused() {
    assert_eq!(decode_signed_chunks(|_| {}).unwrap(), vec![b'a'; 66_560]);
    for at in [100, 65_700, 66_000] {
        let refused = decode_signed_chunks(|encoded| encoded[at] = b'b');
        assert!(matches!(refused, Err(S3Error::SignatureDoesNotMatch)), "{at}: {refused:?}");
    }
    let unsigned = decode_signed_chunks(|encoded| {
        encoded.truncate(encoded.len() - 86);
        encoded.extend_from_slice(b"0\r\n\r\n");
    });
    assert!(matches!(unsigned, Err(S3Error::SignatureDoesNotMatch)), "{unsigned:?}");
    // A header behind chunks that are signed has to be signed.
    let trailer = decode_signed_chunks(|encoded| {
        encoded.truncate(encoded.len() - 2);
        encoded.extend_from_slice(b"x-amz-checksum-crc32:AAAA\r\n\r\n");
    });
    assert!(matches!(trailer, Err(S3Error::SignatureDoesNotMatch)), "{trailer:?}");
}
