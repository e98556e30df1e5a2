package sqstest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// target is the queue that a request names by its URL.
type target struct{ QueueUrl string } //nolint:revive // the protocol's spelling

func (t target) queue() string {
	u, err := url.Parse(t.QueueUrl)
	if err != nil {
		return ""
	}
	owner, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if owner != account {
		return ""
	}
	return name
}

func (t target) find(s *Server) (*queue, *apiError) {
	if t.QueueUrl == "" {
		return nil, missing("QueueUrl")
	}
	q := s.queues[t.queue()]
	if q == nil {
		return nil, noQueue()
	}
	return q, nil
}

type createQueue struct {
	QueueName  string
	Attributes map[string]string
}

func (r *createQueue) queue() string { return r.QueueName }

var queueName = regexp.MustCompile(`^[0-9A-Za-z_-]{1,80}$|^[0-9A-Za-z_-]{1,75}\.fifo$`)

func (r *createQueue) run(s *Server, c call) (any, *apiError) {
	if !queueName.MatchString(r.QueueName) {
		return nil, newError("InvalidParameterValue",
			"Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	fifo := strings.HasSuffix(r.QueueName, ".fifo")
	if fifo && r.Attributes["FifoQueue"] != "true" {
		return nil, newError("InvalidParameterValue",
			"The name of a FIFO queue can only end with .fifo, and FifoQueue must be true.")
	}
	q := &queue{
		name: r.QueueName, created: s.now(), fifo: fifo, visibility: 30 * time.Second, retention: 4 * 24 * time.Hour,
		dedup: map[string]sent{},
	}
	if err := q.set(s, r.Attributes); err != nil {
		return nil, err
	}
	if was := s.queues[q.name]; was == nil {
		s.queues[q.name] = q
	} else {
		now := was.attributes(s.now())
		for name, value := range q.attributes(s.now()) {
			if _, asked := r.Attributes[name]; asked && now[name] != value {
				return nil, newError("QueueNameExists",
					"A queue already exists with the same name and a different value for attribute %s", name)
			}
		}
	}
	return map[string]string{"QueueUrl": s.urlOf(q, c)}, nil
}

func (*Server) urlOf(q *queue, c call) string { return c.base + "/" + account + "/" + q.name }

type getQueueURL struct {
	QueueName              string
	QueueOwnerAWSAccountId string //nolint:revive // the protocol's spelling
}

func (r *getQueueURL) queue() string { return r.QueueName }

func (r *getQueueURL) run(s *Server, c call) (any, *apiError) {
	q := s.queues[r.QueueName]
	if q == nil || r.QueueOwnerAWSAccountId != "" && r.QueueOwnerAWSAccountId != account {
		return nil, noQueue()
	}
	return map[string]string{"QueueUrl": s.urlOf(q, c)}, nil
}

type getQueueAttributes struct {
	target

	AttributeNames []string
}

func (r *getQueueAttributes) run(s *Server, _ call) (any, *apiError) {
	q, err := r.find(s)
	if err != nil {
		return nil, err
	}
	all, asked := q.attributes(s.now()), map[string]string{}
	for _, name := range r.AttributeNames {
		if name == "All" {
			asked = all
			break
		}
		if value, ok := all[name]; ok {
			asked[name] = value
		} else if !slices.Contains([]string{"RedrivePolicy", "FifoQueue", "ContentBasedDeduplication"}, name) {
			return nil, newError("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	if len(asked) == 0 {
		return struct{}{}, nil
	}
	return map[string]any{"Attributes": asked}, nil
}

type setQueueAttributes struct {
	target

	Attributes map[string]string
}

func (r *setQueueAttributes) run(s *Server, _ call) (any, *apiError) {
	q, err := r.find(s)
	if err != nil {
		return nil, err
	}
	return struct{}{}, q.set(s, r.Attributes)
}

type sendMessage struct {
	target

	MessageBody            string
	DelaySeconds           *int
	MessageGroupId         string //nolint:revive // the protocol's spelling
	MessageDeduplicationId string //nolint:revive // the protocol's spelling
}

var fifoID = regexp.MustCompile("^[0-9A-Za-z!-/:-@\\[-`{-~]{1,128}$")

func (r *sendMessage) run(s *Server, _ call) (any, *apiError) {
	q, err := r.find(s)
	if err != nil {
		return nil, err
	}
	if err := r.check(q); err != nil {
		return nil, err
	}
	m := &message{body: r.MessageBody, group: r.MessageGroupId, dedupID: r.MessageDeduplicationId}
	if q.fifo && m.dedupID == "" {
		sum := sha256.Sum256([]byte(m.body))
		m.dedupID = hex.EncodeToString(sum[:])
	}
	delay := q.delay
	if r.DelaySeconds != nil {
		delay = time.Duration(*r.DelaySeconds) * time.Second
	}
	was := q.add(s, m, delay)
	response := map[string]string{"MessageId": was.id, "MD5OfMessageBody": checksum(m.body)}
	if q.fifo {
		response["SequenceNumber"] = was.sequence
	}
	return response, nil
}

// check rejects what the kind of queue does not take.
func (r *sendMessage) check(q *queue) *apiError {
	switch {
	case r.MessageBody == "":
		return missing("MessageBody")
	case len(r.MessageBody) > maxMessageBytes:
		return newError("InvalidParameterValue",
			"One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", maxMessageBytes)
	case !utf8.ValidString(r.MessageBody):
		return newError("InvalidMessageContents", "Invalid characters found.")
	case r.DelaySeconds != nil && (*r.DelaySeconds < 0 || *r.DelaySeconds > int(maxDelay/time.Second)):
		return badValue(*r.DelaySeconds, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
	case r.MessageGroupId != "" && !fifoID.MatchString(r.MessageGroupId):
		return badValue(r.MessageGroupId, "MessageGroupId",
			"MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case r.MessageDeduplicationId != "" && !fifoID.MatchString(r.MessageDeduplicationId):
		return badValue(r.MessageDeduplicationId, "MessageDeduplicationId",
			"MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case !q.fifo && r.MessageDeduplicationId != "":
		return badValue(r.MessageDeduplicationId, "MessageDeduplicationId",
			"The request includes a parameter that is not valid for this queue type.")
	case q.fifo && r.MessageGroupId == "":
		return missing("MessageGroupId")
	case q.fifo && r.MessageDeduplicationId == "" && !q.contentDedup:
		return newError("InvalidParameterValue",
			"The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	case q.fifo && r.DelaySeconds != nil && *r.DelaySeconds != 0:
		return badValue(*r.DelaySeconds, "DelaySeconds",
			"The request include parameter that is not valid for this queue type.")
	}
	return nil
}

type receiveMessage struct {
	target

	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	MessageSystemAttributeNames []string

	found []*message // by the latest run
}

func (r *receiveMessage) run(s *Server, c call) (any, *apiError) {
	q, err := r.find(s)
	if err != nil {
		return nil, err
	}
	most, visibility := 1, q.visibility
	if n := r.MaxNumberOfMessages; n != nil {
		if most = *n; most < 1 || most > 10 {
			return nil, badValue(most, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
		}
	}
	if n := r.VisibilityTimeout; n != nil {
		if visibility = time.Duration(*n) * time.Second; visibility < 0 || visibility > maxVisibility {
			return nil, badValue(*n, "VisibilityTimeout", "Must be between 0 and 43200.")
		}
	}
	if n := r.WaitTimeSeconds; n != nil && (*n < 0 || time.Duration(*n)*time.Second > maxWait) {
		return nil, badValue(*n, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
	}
	if r.found = q.receive(s, most, visibility, c.duplicate && !q.fifo); len(r.found) == 0 {
		return struct{}{}, nil
	}
	messages := make([]map[string]any, len(r.found))
	for i, m := range r.found {
		messages[i] = map[string]any{
			"MessageId": m.id, "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": checksum(m.body),
		}
		if a := m.attributes(r.MessageSystemAttributeNames); len(a) > 0 {
			messages[i]["Attributes"] = a
		}
	}
	return map[string]any{"Messages": messages}, nil
}

// attributes are those of the message that were asked for.
func (m *message) attributes(names []string) map[string]string {
	all := map[string]string{
		"SentTimestamp":                    strconv.FormatInt(m.sent.UnixMilli(), 10),
		"ApproximateReceiveCount":          strconv.Itoa(m.receives),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.firstReceived.UnixMilli(), 10),
		"SenderId":                         account,
		"MessageGroupId":                   m.group,
		"MessageDeduplicationId":           m.dedupID,
		"SequenceNumber":                   m.sequence,
		"DeadLetterQueueSourceArn":         m.source,
	}
	asked := map[string]string{}
	for name, value := range all {
		if value != "" && (slices.Contains(names, "All") || slices.Contains(names, name)) {
			asked[name] = value
		}
	}
	return asked
}

// wait is how long the receive may take. The server's mutex is held.
func (r *receiveMessage) wait(s *Server) time.Duration {
	if r.WaitTimeSeconds != nil {
		return time.Duration(*r.WaitTimeSeconds) * time.Second
	}
	if q, err := r.find(s); err == nil {
		return q.wait
	}
	return 0
}

// next is how long it takes until a message becomes visible by itself. The server's mutex is held.
func (r *receiveMessage) next(s *Server, now time.Time) time.Duration {
	soonest := maxVisibility
	if q, err := r.find(s); err == nil {
		for _, m := range q.messages {
			if left := m.visibleAt.Sub(now); left > 0 {
				soonest = min(soonest, left)
			}
		}
	}
	return soonest
}

type deleteMessage struct {
	target

	ReceiptHandle string
}

// run deletes the message if the handle is that of its latest receive. On a standard queue any other is a success
// without an effect, as the service's documentation says; a FIFO queue wants the message to be in flight.
func (r *deleteMessage) run(s *Server, _ call) (any, *apiError) {
	q, err := r.find(s)
	if err != nil {
		return nil, err
	}
	if r.ReceiptHandle == "" {
		return nil, missing("ReceiptHandle")
	}
	m := q.byReceipt(r.ReceiptHandle)
	if m == nil {
		return struct{}{}, nil
	}
	if q.fifo && !m.inFlight(s.now()) {
		return nil, badValue(r.ReceiptHandle, "ReceiptHandle", "The receipt handle has expired.")
	}
	q.messages = slices.DeleteFunc(q.messages, func(o *message) bool { return o == m })
	s.wake() // the group of the message may go on
	return struct{}{}, nil
}

type changeMessageVisibility struct {
	target

	ReceiptHandle     string
	VisibilityTimeout *int
}

func (r *changeMessageVisibility) run(s *Server, _ call) (any, *apiError) {
	q, err := r.find(s)
	switch {
	case err != nil:
		return nil, err
	case r.ReceiptHandle == "":
		return nil, missing("ReceiptHandle")
	case r.VisibilityTimeout == nil:
		return nil, missing("VisibilityTimeout")
	}
	d, now := time.Duration(*r.VisibilityTimeout)*time.Second, s.now()
	if d < 0 || d > maxVisibility {
		return nil, badValue(*r.VisibilityTimeout, "VisibilityTimeout",
			"VisibilityTimeout must be an integer between 0 and 43200")
	}
	m := q.byReceipt(r.ReceiptHandle)
	switch {
	case m == nil:
		return nil, badReceipt("The input receipt handle is invalid: it is not that of a message's latest receive.")
	case !m.inFlight(now):
		e := newError("MessageNotInflight", "Message does not exist or is not available for visibility timeout change.")
		e.query = "AWS.SimpleQueueService.MessageNotInflight"
		return nil, e
	case now.Add(d).Sub(m.lastReceived) > maxVisibility:
		return nil, badValue(*r.VisibilityTimeout, "VisibilityTimeout",
			"Total VisibilityTimeout for the message is beyond the limit [43200 seconds]")
	}
	m.visibleAt = now.Add(d)
	s.wake()
	return struct{}{}, nil
}
