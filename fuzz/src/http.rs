//! What strangers send to a server of files over HTTP, and what other servers answer to one that asks for a copy.

/// Heads of requests.
pub(crate) fn heads(input: &[u8]) {
    skyhaul_daemon::webdav::fuzz_heads(input);
}

pub(crate) fn heads_seeds() -> Vec<Vec<u8>> {
    [
        "\x15/exp/a%20b?authz=x\nRange: bytes=0-499,-1,500-\nIf-Range: \"a\"\nWant-Digest: adler32;q=0.5, md5, sha-256;q=1\nHost: a:1",
        "\x3f/exp/f\nRange: bytes=0-18446744073709551615,9223372036854775807-\nContent-Range: bytes 0-9/10\nSciTag: 449",
        "\x0a/f\nIf-Match: \"a\", W/\"b\", *\nIf-None-Match: *\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\nOverwrite: F",
        "\x05/f\nDigest: adler32=11e60398,crc32c=wMXeug==,md5=AQIDBAUGBwgJCgsMDQ4PEA==\nContent-MD5: AQIDBAUGBwgJCgsMDQ4PEA==\nWant-Digest: crc32c",
        "\x05/f\nRepr-Digest: adler=:EeYDmA==:;a=1, sha-256=:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:\nWant-Repr-Digest: sha-256=10, adler=3, md5=0",
        "\x20http://a.example:8443/exp/f\nHost: a.example:8443\nSource: https://a.example:8443/exp/%2e%2e/x\nDestination: /exp/g\nAuthorization: Bearer aaaaaaaaaaaaaaaa",
        "\x05/f\nSkyhaul-Upload: 0123456789abcdef0123456789abcdef\nSkyhaul-Received: 17 11e60398 c0c5de9a\nContent-Range: bytes 17-31/32",
        "\x01/f\nClientInfo: job-id=6a7b-12;file-id=2;retry=0\nTransferHeaderSciTag: 65535\nOrigin: http://a",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Ranges of objects.
pub(crate) fn ranges(input: &[u8]) {
    skyhaul_daemon::webdav::fuzz_ranges(input);
}

pub(crate) fn ranges_seeds() -> Vec<Vec<u8>> {
    let of = |size: u64, text: &str| [&size.to_le_bytes()[..], text.as_bytes()].concat();
    vec![
        of(10_000, "bytes=0-499,-500,9500-"),
        of(u64::MAX, "bytes=0-18446744073709551615,9223372036854775807-"),
        of(100, "Bytes= 0-1 , 4-5,,-1"),
        of(0, "bytes=0-"),
        of(1 << 40, "bytes=5-4"),
        of(1000, &format!("bytes={}", "0-0,".repeat(600))),
    ]
}

/// Bodies in XML: those of PROPFIND, and replies to it.
pub(crate) fn bodies(input: &[u8]) {
    skyhaul_daemon::webdav::fuzz_bodies(input);
}

pub(crate) fn bodies_seeds() -> Vec<Vec<u8>> {
    [
        "<?xml version='1.0'?><D:propfind xmlns:D='DAV:'><D:prop><D:getcontentlength/><x:y xmlns:x='urn:&quot;'/><D:quota-used-bytes/></D:prop></D:propfind>",
        "<propfind xmlns='DAV:'><allprop/></propfind>",
        "<propfind xmlns='DAV:'><propname></propname></propfind>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><propfind xmlns='DAV:'>&b;</propfind>",
        "<D:multistatus xmlns:D='DAV:'><D:response><D:href>/a&amp;b%20&#x21;<![CDATA[c]]></D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat></D:response></D:multistatus>",
        "",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Heads of copies with other servers.
pub(crate) fn copies(input: &[u8]) {
    skyhaul_daemon::webdav::fuzz_copies(input);
}

pub(crate) fn copies_seeds() -> Vec<Vec<u8>> {
    [
        "Source: https://a.example:8443/exp/f?authz=x\nTransferHeaderAuthorization: Bearer a\nCopy-Header: X-Old: 2\nCredential: none\nX-Number-Of-Streams: 8\nRequireChecksumVerification: true\nDigest: adler32=1",
        "Destination: davs://[2001:db8::1]:443/g\nTransferHeaderHost: b\nTransferHeaderTransfer-Encoding: chunked\nOverwrite: F",
        "Source: http://user@a.example/f\nCopy-Header: Content-Length: 5\nCredential: gridsite\nRepr-Digest: adler=:AA==:",
        "Destination: dav://a.example\nX-Number-Of-Streams: -1\nClientInfo: job-id=1\nTransferHeaderSciTag: 65",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// What the server that copies says of it.
pub(crate) fn markers(input: &[u8]) {
    skyhaul_daemon::web_copy::fuzz_markers(input);
}

pub(crate) fn markers_seeds() -> Vec<Vec<u8>> {
    [
        "\x02Perf Marker\nTimestamp: 1\nStripe Index: 0\nStripe Bytes Transferred: 10\nTotal Stripe Count: 1\nRemoteConnections: tcp:1.2.3.4:5\nEnd\nsuccess: Created",
        "\x07Perf Marker\n    Stripe Index: 8191\n    Stripe Bytes Transferred: 18446744073709551615\n    State: 1\nEnd\nPerf Marker\n Stripe Index: 1\n Stripe Bytes Transferred: 5\nEnd\nfailure: No space left\r\n",
        "\x00aborted:\n",
        "\x40Failed: a\u{85}b\u{1b}[2J\nsuccess: x",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Paths of requests, and URLs of other servers.
pub(crate) fn paths(input: &[u8]) {
    skyhaul_daemon::webdav::fuzz_paths(input);
}

pub(crate) fn paths_seeds() -> Vec<Vec<u8>> {
    [
        "/exp/2026%2D11/scan.vdif",
        "/exp/%2e%2e/%2Fetc/%00/%c3%bc//./",
        "/recordings/n26c3_mh_no0001#a?b",
        "https://A.example:8443/exp/f%20g?X-Amz-Signature=ab%2F&b=%3F",
        "davs://[2001:DB8::1]:443/a/../b",
        "//c.example/g",
        "g;v=1?key=2#part",
        "http://127.0.0.1:0/",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Bearer tokens, their parts, scopes, and keys of issuers.
pub(crate) fn tokens(input: &[u8]) {
    skyhaul_daemon::tokens::fuzz(input);
}

pub(crate) fn tokens_seeds() -> Vec<Vec<u8>> {
    let wlcg = r#"{"iss":"https://i.example/","sub":"ann","aud":["x","https://a.example:8443"],"exp":1800000000.5,"nbf":1,"iat":1,"wlcg.ver":"1.0","scope":"openid storage.read:/a/ storage.modify:/b/c storage.create:/"}"#;
    let scitokens = r#"{"iss":"i","sub":"a","aud":"ANY","exp":1800000000,"ver":"scitoken:2.0","scope":"read:/x write:/y/../z"}"#;
    let keys = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"k","use":"sig","alg":"ES256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"oct"}]}"#;
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    vec![
        format!("{{\"alg\":\"ES256\",\"kid\":\"e\"}}\n{wlcg}\n{signature}").into_bytes(),
        format!("{{\"alg\":\"RS256\",\"kid\":\"r\"}}\n{scitokens}\nx").into_bytes(),
        format!("{{\"alg\":\"none\",\"crit\":[]}}\n{wlcg}\n").into_bytes(),
        format!("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODB9.{signature}").into_bytes(),
        b"storage.read:/a storage.modify:/a/%2e%2e/b storage.create:/c/ storage.stage:/ read:/x write:/y"
            .to_vec(),
        keys.as_bytes().to_vec(),
    ]
}

/// A certificate with the name /DC=org/O=Uni/CN=Ann+UID=a, which it has signed itself; base64.
const CERTIFICATE: &str = "\
    MIIB2TCCAX+gAwIBAgIUXKyeul9zmeJXBFtOYahWdPoWM6UwCgYIKoZIzj0EAwIwQjETMBEGCgmSJomT8ixkARkWA29yZzEMMAoG\
    A1UECgwDVW5pMR0wCgYDVQQDDANBbm4wDwYKCZImiZPyLGQBAQwBYTAeFw0yNjExMjkyMzQzNTdaFw0yNjExMzAyMzQzNTdaMEIx\
    EzARBgoJkiaJk/IsZAEZFgNvcmcxDDAKBgNVBAoMA1VuaTEdMAoGA1UEAwwDQW5uMA8GCgmSJomT8ixkAQEMAWEwWTATBgcqhkjO\
    PQIBBggqhkjOPQMBBwNCAATWW2pxpgitkcwXcuo+nfpx3VlHf9wLHiKKsDT1dl+kNGGCxnNbL9usCM0vTraSxVdFJid4npI81KFn\
    RAQr3TFJo1MwUTAdBgNVHQ4EFgQUfv9e+MS9HQrg/muDeDU8v9I1+1UwHwYDVR0jBBgwFoAUfv9e+MS9HQrg/muDeDU8v9I1+1Uw\
    DwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiB/CkY5rcox0r7DLapRb09WljrTU2/eUJArEgdr3YcJRwIhAMgEV/LU\
    pQR9du9oJyQjlGLs3b/75aABOng2MZHDviIB\
";

/// Requests for macaroons.
pub(crate) fn macaroons(input: &[u8]) {
    skyhaul_daemon::webdav::fuzz_macaroons(input);
}

pub(crate) fn macaroons_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"caveats":["activity:DOWNLOAD,LIST"],"validity":"PT60M"}"#,
        r#"{"caveats":["activity:MANAGE,UPLOAD,DELETE,LIST","path:/c"],"validity":"P1DT1H2M3S"}"#,
        r#"{"caveats":["activity:UPLOAD","path:x%20y/","activity:LIST,UPLOAD"]}"#,
        r#"{"caveats":["before:2030-01-01T00:00:00Z"],"validity":"PT99999999999999999H"}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Certificates of clients, and subjects as operators write them.
pub(crate) fn certificates(input: &[u8]) {
    skyhaul_daemon::webdav::fuzz_certificates(input);
}

pub(crate) fn certificates_seeds() -> Vec<Vec<u8>> {
    let names = [
        "/DC=org/DC=example/O=Uni, Bonn/CN=host/mh.example",
        r"CN=\ a\20+UID=1,O=Uni\, Bonn,0.9.2342.19200300.100.1.25=org",
        r"CN=\C3\A4\;\#,OU=#x",
    ];
    names.iter().map(|name| name.as_bytes().to_vec()).chain([decoded(CERTIFICATE)]).collect()
}

/// Bytes of base64 without padding.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).unwrap_or(0) as u32;
    let bytes: Vec<u8> = text.bytes().filter(|byte| DIGITS.contains(byte)).collect();
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0, |bits, byte| bits << 6 | digit(*byte)) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    bytes.chunks(4).flat_map(group).collect()
}
