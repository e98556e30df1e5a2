// Package extid converts the 64-bit IDs of kazahana to the 11 characters that are shown outside, and back. Databases and
// services keep the ID, which sorts by time; URLs and answers carry the characters, which say nothing about time, machine
// or what comes next.
//
//	7301444403200005 ──── permutation of 64 bits ────> base64url ───> "9xO-N-buxPg"
//	                    unkeyed, or under a secret       11 characters, without padding
//
// # What is protected, and what is not
//
//   - [Unkeyed] is a fixed permutation that everybody can undo with this package. It hides, it does not protect: it keeps
//     people from reading an order of events or a number of customers off two URLs, and nothing more.
//   - [AES256] and [AES128] are format-preserving encryption under a secret: who does not have the secret learns nothing
//     from any number of public IDs but whether two are equal, and cannot make one that belongs to a given ID. Who gets
//     the secret can read and make all public IDs, those of the past too.
//   - No mode is authorization. Whoever was shown a public ID can show it again. Whether they may see what it names is
//     asked after the conversion, each time.
//
// # Keys and their change
//
// Public IDs live as long as the links that hold them, so a secret is never replaced; another is added. 11 characters
// have 66 bits. The 2 that are left carry the number of the key: 00 is the only value in the format without key numbers,
// so that key 0 reads and writes what that format does; 1 to 3 are for later keys. A [Converter] encodes with its first key and
// decodes with each:
//
//	extid.New([]extid.Key{{Number: 1, Secret: fresh}, {Number: 0, Secret: old}}, &extid.Options{Entity: "user"})
//
// To change the secret without a gap, first add the new key at the end of the list everywhere, then put it in front.
// What a key protects is what the weakest key of the list protects: as long as a leaked or an unkeyed one is there, others
// can make public IDs under it. Taking it out ends them, and the links that hold them.
//
// # What comes in
//
// [Converter.Decode] accepts one string for an ID and a key: 11 characters of the alphabet, nothing around them, and a key
// number that it knows. Then it asks whether such an ID can have been made: reserved bits zero, timestamp not in the
// future. In the first year of a layout that refuses 99 % of made-up strings before a database is asked. The error is
// [ErrImplausible], to be answered as an ID that does not exist.
//
// # The constructions
//
// Unkeyed: the finalizer of MurmurHash3 (fmix64, Austin Appleby, public domain) after an exclusive or with a constant, so that 0
// does not stay 0.
//
// Under a secret: FF1 of NIST SP 800-38G with radix 2, 64 digits, the entity as tweak and AES, whose key is made from the
// secret by HKDF-SHA256 (RFC 5869) with an empty salt and the mode in the info: "leasehold extid ff1-aes256". It takes 10
// AES blocks and no memory. Its time does not depend on secret or ID where the processor has AES instructions; elsewhere
// crypto/aes uses tables, and it may.
//
// Other languages do the same with contracts/vectors/kazahana.json at hand; examples/node-external-id is one.
package extid
