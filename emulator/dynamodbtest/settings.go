package dynamodbtest

import (
	"slices"
	"strings"
	"time"
)

// tableSettings are members of CreateTable and UpdateTable that are kept and shown, and change nothing else: streams have
// no records, nothing is encrypted, and a table class costs what the other does.
type tableSettings struct {
	StreamSpecification *streamSpecification
	SSESpecification    *sseSpecification
	TableClass          string
}

type streamSpecification struct {
	StreamEnabled  *bool
	StreamViewType string
}

type sseSpecification struct {
	Enabled        *bool
	SSEType        string
	KMSMasterKeyId *string //nolint:revive // the protocol spells Id
}

// check looks at each member by itself.
func (s tableSettings) check() *apiError {
	errs := []*apiError{oneOf("TableClass", s.TableClass, "STANDARD", "STANDARD_INFREQUENT_ACCESS")}
	if stream := s.StreamSpecification; stream != nil {
		if stream.StreamEnabled == nil {
			errs = append(errs, missing("streamSpecification.streamEnabled"))
		}
		errs = append(errs, oneOf("streamSpecification.streamViewType", stream.StreamViewType,
			"NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY"))
	}
	if sse := s.SSESpecification; sse != nil {
		errs = append(errs, oneOf("SSESpecification.SSEType", sse.SSEType, "AES256", "KMS"))
	}
	return all(errs...)
}

// checkTogether rejects members that do not fit together.
func (s tableSettings) checkTogether() *apiError {
	stream, sse := s.StreamSpecification, s.SSESpecification
	switch {
	case stream != nil && *stream.StreamEnabled && stream.StreamViewType == "":
		return badValue("StreamViewType must be specified when StreamEnabled is true")
	case stream != nil && !*stream.StreamEnabled && stream.StreamViewType != "":
		return badValue("StreamViewType must not be specified when StreamEnabled is false")
	case sse != nil && (sse.Enabled == nil || !*sse.Enabled) && (sse.SSEType != "" || sse.KMSMasterKeyId != nil):
		return badValue("SSEType and KMSMasterKeyId can only be specified when SSESpecification is enabled")
	default:
		return nil
	}
}

// adopt takes over the settings that a request names.
func (t *table) adopt(s tableSettings, now time.Time) {
	if s.StreamSpecification != nil {
		t.settings.StreamSpecification, t.stream = s.StreamSpecification, now
	}
	if s.SSESpecification != nil {
		t.settings.SSESpecification = s.SSESpecification
	}
	if s.TableClass != "" {
		t.settings.TableClass = s.TableClass
	}
}

// streams reports whether the table has a stream.
func (t *table) streams() bool {
	stream := t.settings.StreamSpecification
	return stream != nil && *stream.StreamEnabled
}

// describeSettings adds the settings to a TableDescription.
func (t *table) describeSettings(out map[string]any) {
	if t.streams() {
		label := t.stream.UTC().Format("2006-01-02T15:04:05.000")
		out["StreamSpecification"] = map[string]any{
			"StreamEnabled": true, "StreamViewType": t.settings.StreamSpecification.StreamViewType,
		}
		out["LatestStreamLabel"], out["LatestStreamArn"] = label, arnPrefix+t.name+"/stream/"+label
	}
	if sse := t.settings.SSESpecification; sse != nil && sse.Enabled != nil && *sse.Enabled {
		key := "arn:aws:kms:local:000000000000:key/" + t.id
		if sse.KMSMasterKeyId != nil {
			key = *sse.KMSMasterKeyId
		}
		out["SSEDescription"] = map[string]any{"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": key}
	}
	if t.settings.TableClass != "" {
		out["TableClassSummary"] = map[string]any{"TableClass": t.settings.TableClass}
	}
}

// Limits of tags.
const (
	maxTags     = 50
	maxTagKey   = 128
	maxTagValue = 256
)

type tag struct {
	Key   string
	Value *string
}

// checkTags decides whether tags can be added to those that a table has.
func checkTags(has map[string]string, more []tag) *apiError {
	total := len(has)
	var seen []string
	for _, t := range more {
		switch _, replaced := has[t.Key]; {
		case t.Key == "" || len(t.Key) > maxTagKey:
			return badValue("a tag's key has from 1 to %d characters, found %d", maxTagKey, len(t.Key))
		case t.Value == nil || len(*t.Value) > maxTagValue:
			return badValue("a tag's value has at most %d characters and must be there: tag %s", maxTagValue, t.Key)
		case slices.Contains(seen, t.Key):
			return badValue("the tag %s is given twice", t.Key)
		case !replaced:
			total++
		}
		seen = append(seen, t.Key)
	}
	if total > maxTags {
		return badValue("a table has at most %d tags, found %d", maxTags, total)
	}
	return nil
}

func (t *table) tag(tags []tag) {
	if t.tags == nil {
		t.tags = make(map[string]string)
	}
	for _, g := range tags {
		t.tags[g.Key] = *g.Value
	}
}

// resource is what the operations on tags begin with.
type resource struct{ ResourceArn string }

func (r *resource) targets() []target {
	return []target{{table: strings.TrimPrefix(r.ResourceArn, arnPrefix)}}
}

func (r *resource) find(s *Server) (*table, *apiError) {
	name, ok := strings.CutPrefix(r.ResourceArn, arnPrefix)
	switch {
	case r.ResourceArn == "":
		return nil, missing("resourceArn")
	case !ok:
		return nil, invalid("Invalid TableArn: Invalid ResourceArn provided as input %s", r.ResourceArn)
	case s.tables[name] == nil:
		return nil, newError(prefixDynamo+"ResourceNotFoundException", "Requested resource not found: ResourcArn: %s not found", r.ResourceArn)
	default:
		return s.tables[name], nil
	}
}

type tagResource struct {
	resource
	Tags []tag
}

func (r *tagResource) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s)
	if err != nil {
		return nil, err
	}
	if len(r.Tags) == 0 {
		return nil, invalid("Atleast one Tag needs to be provided as Input.")
	}
	if err := checkTags(t.tags, r.Tags); err != nil {
		return nil, err
	}
	t.tag(r.Tags)
	return map[string]any{}, nil
}

type untagResource struct {
	resource
	TagKeys []string
}

func (r *untagResource) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s)
	if err != nil {
		return nil, err
	}
	if len(r.TagKeys) == 0 {
		return nil, invalid("Atleast one Tag Key needs to be provided as Input.")
	}
	for _, key := range r.TagKeys {
		delete(t.tags, key)
	}
	return map[string]any{}, nil
}

type listTagsOfResource struct{ resource }

func (r *listTagsOfResource) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s)
	if err != nil {
		return nil, err
	}
	tags := []map[string]any{}
	for _, key := range sortedKeys(t.tags) {
		tags = append(tags, map[string]any{"Key": key, "Value": t.tags[key]})
	}
	return map[string]any{"Tags": tags}, nil
}
