package awsjson

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// ContentType is that of requests and responses.
const ContentType = "application/x-amz-json-1.0"

// Encode is the JSON of a response, which must be made of maps, slices, strings and numbers: it panics at what JSON
// does not have.
func Encode(response any) []byte {
	body, err := json.Marshal(response)
	if err != nil {
		panic(err)
	}
	return body
}

// Write sends a response with the headers that are set already and those of its body.
func Write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that hung up is no concern of the server
}
