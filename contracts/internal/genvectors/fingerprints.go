package main

import (
	"crypto/sha256"
	"encoding/base64"
)

// fingerprintVectors are for those who compare the input of a run in another language.
type fingerprintVectors struct {
	Comment      string        `json:"comment"`
	Fingerprints []fingerprint `json:"fingerprints"`
	Refused      []string      `json:"refused"`
}

type fingerprint struct {
	JSON        string `json:"json"`
	Canonical   string `json:"canonical"`
	Fingerprint string `json:"fingerprint"`
}

// fingerprints pairs each text with its canonical one by hand: a mistake in the code of package once does not get into
// the file.
func fingerprints() fingerprintVectors {
	v := fingerprintVectors{
		Comment: "Test vectors of the fingerprints of inputs. README.md beside this file explains them. Generated: make generate.",
		Refused: []string{`"\ud800"`, `["a\udc00\ud800"]`, `{"\udfff":1}`, `1e400`, `[-1e309]`},
	}
	for _, pair := range [][2]string{
		{`null`, `null`}, {`true`, `true`}, {`false`, `false`},
		{`""`, `""`}, {`"a"`, `"a"`}, {`[]`, `[]`}, {`{}`, `{}`}, {`[[],{},"",null,0]`, `[[],{},"",null,0]`},

		{`0`, `0`}, {`-0`, `0`}, {`-0.0`, `0`}, {`1`, `1`}, {`1.0`, `1`}, {`1e0`, `1`}, {`"1"`, `"1"`}, {`-17`, `-17`},
		{`4.50`, `4.5`}, {`2e-3`, `0.002`}, {`0.1`, `0.1`}, {`0.30000000000000004`, `0.30000000000000004`},
		{`1e-6`, `0.000001`}, {`1e-7`, `1e-7`}, {`0.00000123`, `0.00000123`}, {`1.5e-10`, `1.5e-10`}, {`5e-324`, `5e-324`},
		{`9007199254740992`, `9007199254740992`}, {`-9007199254740992`, `-9007199254740992`},
		{`1152921504606846976`, `1152921504606847000`}, {`123456789012345680000.0`, `123456789012345680000`},
		{`1e21`, `1e+21`}, {`1E30`, `1e+30`}, {`1e+100`, `1e+100`}, {`1.7976931348623157e308`, `1.7976931348623157e+308`},
		{`333333333.33333329`, `333333333.3333333`},

		{`{"b":1,"a":2}`, `{"a":2,"b":1}`}, {` { "a" : [ 1 , 2 ] } `, `{"a":[1,2]}`},
		{`{"":0,"B":1,"a":2,"10":3,"9":4}`, `{"":0,"10":3,"9":4,"B":1,"a":2}`},
		{`{"a":{"d":1,"c":{"f":null,"e":[{"h":1,"g":2}]}}}`, `{"a":{"c":{"e":[{"g":2,"h":1}],"f":null},"d":1}}`},
		{`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}"},
		{`{"__proto__":1,"constructor":2}`, `{"__proto__":1,"constructor":2}`},

		{`"\u00e9\ud83d\ude00\u4f1a\u8b70"`, `"é😀会議"`}, {`"e\u0301"`, "\"e\u0301\""},
		{`"\u0000\u0008\u0009\u000a\u000b\u000c\u000d\u001f\u007f"`, "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\u007f\""},
		{`"\"\\\/<&>\u2028\u2029"`, "\"\\\"\\\\/<&>\u2028\u2029\""},
		{`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],` +
			`"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`},
	} {
		sum := sha256.Sum256([]byte(pair[1]))
		v.Fingerprints = append(v.Fingerprints, fingerprint{pair[0], pair[1], base64.RawURLEncoding.EncodeToString(sum[:])})
	}
	return v
}
