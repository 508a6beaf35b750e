//! Opens a trace: decompresses it and looks at its beginning.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// An open trace, decompressed, without a byte order mark.
pub(crate) type Input = Box<dyn BufRead + Send>;

/// How much of the beginning is looked at to find the format.
const HEAD: usize = 1 << 16;

/// Opens `path`, decompresses gzip and zstd by their magic numbers, and hands back its beginning beside the whole.
pub(crate) fn open(path: &Path) -> io::Result<(Vec<u8>, Input)> {
    peek(BufReader::with_capacity(1 << 16, File::open(path)?))
}

/// The same for open input.
pub(crate) fn peek(mut input: impl BufRead + Send + 'static) -> io::Result<(Vec<u8>, Input)> {
    let magic = input.fill_buf()?;
    let plain: Box<dyn Read + Send> = if magic.starts_with(&[0x1f, 0x8b]) {
        Box::new(Named("gzip", MultiGzDecoder::new(input)))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(Named("zstd", Zstd::new(input)))
    } else {
        Box::new(input)
    };
    let (head, failed, rest) = head(plain);
    if head.is_empty()
        && let Some(error) = failed
    {
        return Err(error);
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).to_vec();
    let tail = Failing(failed).chain(rest);
    let whole = BufReader::with_capacity(1 << 16, Cursor::new(text.clone()).chain(tail));
    Ok((text, Box::new(whole)))
}

/// Reads up to [`HEAD`] bytes; an error after some bytes is handed back to be met again at its place.
fn head(mut input: Box<dyn Read + Send>) -> (Vec<u8>, Option<io::Error>, Box<dyn Read + Send>) {
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    let mut failed = None;
    while filled < HEAD {
        match input.read(&mut head[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    head.truncate(filled);
    (head, failed, input)
}

/// Fails once, if at all, then is empty.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// A decompressor whose errors say what it decompresses.
struct Named<R>(&'static str, R);

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.read(buffer).map_err(|error| {
            let text = format!("{} data cut short or damaged ({error})", self.0);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }
}

/// Zstandard frames, one after the other.
struct Zstd<R: BufRead> {
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
    next: Option<(R, FrameDecoder)>,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        Self {
            frame: None,
            next: Some((source, FrameDecoder::new())),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((mut source, decoder)) = self.next.take() {
                if source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                let frame = StreamingDecoder::new_with_decoder(source, decoder);
                self.frame = Some(frame.map_err(io::Error::other)?);
            }
            let Some(frame) = &mut self.frame else {
                return Ok(0);
            };
            match frame.read(buffer)? {
                0 if buffer.is_empty() => return Ok(0),
                0 => self.next = self.frame.take().map(StreamingDecoder::into_parts),
                n => return Ok(n),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn whole(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let (_, mut input) = peek(Cursor::new(bytes))?;
        let mut out = Vec::new();
        input.read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn gzip_and_zstd_are_read_through_even_in_several_members() {
        let text: Vec<u8> = (0..200_000_u32)
            .flat_map(|i| (i % 251).to_string().into_bytes())
            .collect();
        assert_eq!(whole(text.clone()).unwrap(), text);
        for compress in [gzip as fn(&[u8]) -> Vec<u8>, zstd] {
            let (a, b) = text.split_at(text.len() / 3);
            let both = [compress(a), compress(b)].concat();
            assert_eq!(whole(both).unwrap(), text);
        }
    }

    #[test]
    fn a_cut_stream_is_an_error_after_its_good_bytes() {
        let text: Vec<u8> = (0..200_000_u32)
            .flat_map(|i| i.to_string().into_bytes())
            .collect();
        for compress in [gzip as fn(&[u8]) -> Vec<u8>, zstd] {
            let mut cut = compress(&text);
            cut.truncate(cut.len() * 2 / 3);
            let (head, mut input) = peek(Cursor::new(cut)).unwrap();
            assert!(!head.is_empty());
            let mut out = Vec::new();
            let error = input.read_to_end(&mut out).unwrap_err().to_string();
            assert!(error.contains("cut short"), "{error}");
            assert!(text.starts_with(&out) && !out.is_empty());
        }
    }
}
