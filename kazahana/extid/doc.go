// Package extid converts the 64-bit IDs of kazahana to public IDs (its requirement calls them external IDs): 11
// characters that are shown outside, and back. Databases and services keep the ID, which sorts by time; URLs and
// responses carry the characters, which say nothing about time, machine or the next ID.
//
//	7301444403200005 ──── permutation of 64 bits ────> base64url ───> "9xO-N-buxPg"
//	                    unkeyed, or under a secret       11 characters, without padding
//
// # What is protected, and what is not
//
//   - [Unkeyed] is a fixed permutation that everyone can undo with this package. It hides the order of events and the
//     number of customers from a reader of two URLs, and protects nothing.
//   - [AES256] and [AES128] are format-preserving encryption under a secret: without the secret, one learns nothing
//     from any number of public IDs but whether two are equal, and cannot make the one of a given ID. With the secret,
//     one can read and make all public IDs, past ones too.
//   - No mode is authorization. Public IDs are passed on. Check after the conversion, each time, whether the caller may
//     see what the ID names.
//
// # Keys and their rotation
//
// Public IDs live as long as the links that contain them, so a secret is never replaced; another is added. 11
// characters have 66 bits. The 2 spare bits hold the number of the key: 00 is the only value in the format without key
// numbers, so that key 0 reads and writes that format; 1 to 3 are for later keys. A [Converter] encodes with its first
// key and decodes with each:
//
//	extid.New([]extid.Key{{Number: 1, Secret: fresh}, {Number: 0, Secret: old}}, &extid.Options{Entity: "user"})
//
// To change the secret without a gap, first add the new key at the end of the list on every server, then move it to the
// front. The weakest key of the list decides what is protected: while a leaked or an unkeyed one is in it, others can
// make public IDs with it. Removing a key ends its public IDs, and the links that contain them.
//
// # Decoding
//
// [Converter.Decode] accepts one string per ID and key: 11 characters of the alphabet, nothing around them, and a known
// key number. Then it checks whether such an ID can have been made: reserved bits zero, timestamp not in the future. In
// the first year of a layout that rejects 99 % of made-up strings before a database is asked. The error is
// [ErrImplausible]; respond as to an ID that does not exist.
//
// # The constructions
//
// Unkeyed: the finalizer of MurmurHash3 (fmix64, Austin Appleby, public domain) after an exclusive or with a constant,
// so that 0 does not stay 0.
//
// Under a secret: FF1 of NIST SP 800-38G with radix 2, 64 digits, the entity as tweak and AES, whose key is made from
// the secret by HKDF-SHA256 (RFC 5869) with an empty salt and the mode in the info: "leasehold extid ff1-aes256". It
// takes 10 AES blocks and no memory. Its time does not depend on secret or ID where the processor has AES instructions;
// elsewhere crypto/aes uses tables, and it may.
//
// Other languages can do the same with contracts/vectors/kazahana.json; examples/node-external-id is one.
package extid
