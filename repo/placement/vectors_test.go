package placement

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// TestVectors: PLC-PLACE-4. It holds the code against contracts/vectors/placement.json, which other languages are held
// against as well.
func TestVectors(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", "contracts", "vectors", "placement.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		HashVersion int
		Hashes      []struct{ Kind, ID, Hash string }
		Topologies  []struct {
			Name    string
			Members []Member
			Table   []int
		}
		Placements []struct {
			Topology, Kind, ID string
			Labels, Prefer     map[string]string
			Partition          int
			Member             string
		}
	}
	if err := json.Unmarshal(content, &v); err != nil {
		t.Fatal(err)
	}
	if v.HashVersion != HashVersion || len(v.Hashes) == 0 || len(v.Placements) == 0 {
		t.Fatalf("hash version %d with %d hashes and %d placements", v.HashVersion, len(v.Hashes), len(v.Placements))
	}
	for _, h := range v.Hashes {
		if got := fmt.Sprintf("%016x", Identity{h.Kind, h.ID}.Hash()); got != h.Hash {
			t.Errorf("the hash of %s/%s is %s, want %s", h.Kind, h.ID, got, h.Hash)
		}
	}
	topologies := map[string]*Topology{}
	for _, top := range v.Topologies {
		table := make([]uint16, len(top.Table))
		for p, m := range top.Table {
			table[p] = uint16(m) // -1 is noMember
		}
		topologies[top.Name] = (&Topology{Epoch: 1, Members: top.Members, table: table}).seal()
	}
	for _, p := range v.Placements {
		top, id := topologies[p.Topology], Identity{p.Kind, p.ID}
		got := ""
		if m := top.Place(id, Need{p.Labels, p.Prefer}); m != nil {
			got = m.Member
		}
		if n := top.Partition(id); got != p.Member || n != p.Partition {
			t.Errorf("%+v: partition %d on %q", p, n, got)
		}
	}
}

// TestHashIsWhatItSays computes a hash from the published XXH64 of two texts and the definition of the mixture, in
// whole numbers of any size.
func TestHashIsWhatItSays(t *testing.T) {
	t.Parallel()
	if xxhash.Sum64String("") != 0xef46db3751d8e999 || xxhash.Sum64String("as") != 0x1c330fb2d66be179 {
		t.Error("the library's hash is not XXH64 with seed 0")
	}
	number := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	product := number(0).Mul(number(0x1c330fb2d66be179^0xa0761d6478bd642f), number(0xef46db3751d8e999^0xe7037ed1a0b428db))
	low := number(0).And(product, number(1<<64-1))
	want := number(0).Xor(low, new(big.Int).Rsh(product, 64)).Uint64()
	if got := (Identity{Kind: "", ID: "as"}).Hash(); got != want {
		t.Errorf("%x, want %x", got, want)
	}
}
