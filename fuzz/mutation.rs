//! Random changes of known inputs, the same for the same seed.

/// Changes of one input at most.
const MOST_CHANGES: u64 = 6;
/// Longest input made.
const MOST_BYTES: usize = 4096;

/// Bytes that mean something to one parser or another.
const TELLING: &[u8] = b"\0\t\n\r \"#%&'*+,-./0159:;<=>?@AZ[\\]_az{|}~\x7f\x80\xbf\xc3\xed\xf4\xff";

pub struct Mutator {
    state: u64,
    dictionary: &'static [&'static str],
}

impl Mutator {
    pub fn new(seed: u64, dictionary: &'static [&'static str]) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, dictionary }
    }

    /// An input made of one or two of the corpus.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.random() % MOST_CHANGES {
            self.change(&mut input, corpus);
        }
        input.truncate(MOST_BYTES);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let to = (at + self.below(16)).min(input.len());
        match self.below(9) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = TELLING[self.below(TELLING.len())],
            2 => input.insert(at, TELLING[self.below(TELLING.len())]),
            3 => drop(input.drain(at..to)),
            4 => {
                let again = input[at..to].to_vec();
                let most = if self.below(8) == 0 { 200 } else { 2 };
                let times = 1 + self.below(most);
                input.splice(at..at, again.repeat(times));
            }
            5 => input.truncate(at),
            6 => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                let until = (from + self.below(64)).min(other.len());
                input.splice(at..to, other[from..until].iter().copied());
            }
            _ if !self.dictionary.is_empty() => {
                let word = self.dictionary[self.below(self.dictionary.len())];
                input.splice(at..to, word.bytes());
            }
            _ => input.push(TELLING[self.below(TELLING.len())]),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.random() % end.max(1)).unwrap_or(0)
    }

    /// xorshift64: good enough to choose places.
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}
