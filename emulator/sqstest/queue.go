package sqstest

import (
	"crypto/md5" //nolint:gosec // the protocol's checksum
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Bounds of the service.
const (
	maxVisibility   = 12 * time.Hour
	maxMessageBytes = 1 << 20
	maxWait         = 20 * time.Second
	maxDelay        = 15 * time.Minute
	dedupWindow     = 5 * time.Minute

	account = "000000000000"
	region  = "us-east-1" // as far as ARNs tell
)

type queue struct {
	name         string
	created      time.Time
	fifo         bool
	contentDedup bool
	visibility   time.Duration
	delay        time.Duration
	wait         time.Duration
	retention    time.Duration
	redrive      *redrive
	messages     []*message // in the order of their arrival in this queue
	dedup        map[string]sent
}

// redrive is a queue's RedrivePolicy.
type redrive struct {
	Target string `json:"deadLetterTargetArn"`
	Max    number `json:"maxReceiveCount"`
}

// number is a whole number that may come as text, as it does in policies.
type number int

func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.Atoi(string(trimQuotes(b)))
	*n = number(v)
	return err
}

func trimQuotes(b []byte) []byte {
	if len(b) > 1 && b[0] == '"' && b[len(b)-1] == '"' {
		return b[1 : len(b)-1]
	}
	return b
}

// sent is what deduplication remembers of a message.
type sent struct {
	at           time.Time
	id, sequence string
}

type message struct {
	id, body, group, dedupID string
	sequence                 string
	sent                     time.Time
	visibleAt                time.Time // delayed or in flight before
	firstReceived            time.Time
	lastReceived             time.Time
	receives                 int
	receipt                  string // of the latest receive
	source                   string // ARN of the queue that gave it up, in a dead-letter queue
}

func (m *message) visible(now time.Time) bool  { return !now.Before(m.visibleAt) }
func (m *message) inFlight(now time.Time) bool { return m.receives > 0 && !m.visible(now) }

func (q *queue) arn() string { return "arn:aws:sqs:" + region + ":" + account + ":" + q.name }

// byARN finds a queue of this server; nil if there is none.
func (s *Server) byARN(arn string) *queue {
	for _, q := range s.queues {
		if q.arn() == arn {
			return q
		}
	}
	return nil
}

// add puts a new message into the queue, or finds that it is there already.
func (q *queue) add(s *Server, m *message, delay time.Duration) sent {
	now := s.now()
	if q.fifo {
		if was, ok := q.dedup[m.dedupID]; ok && now.Sub(was.at) < dedupWindow {
			return was
		}
	}
	s.sequence++
	m.id, m.sent, m.visibleAt = newID(), now, now.Add(delay)
	if q.fifo {
		m.sequence = fmt.Sprintf("%020d", s.sequence)
	}
	q.messages = append(q.messages, m)
	was := sent{now, m.id, m.sequence}
	if q.fifo {
		q.dedup[m.dedupID] = was
	}
	s.wake()
	return was
}

// receive hands out up to n messages and hides them.
func (q *queue) receive(s *Server, n int, visibility time.Duration, duplicate bool) []*message {
	now := s.now()
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return now.Sub(m.sent) >= q.retention })
	busy := map[string]bool{} // groups of which a message is in flight since before
	for _, m := range q.messages {
		busy[m.group] = busy[m.group] || q.fifo && m.inFlight(now)
	}
	var found []*message
	for _, m := range slices.Clone(q.messages) {
		if len(found) == n {
			break
		}
		if !m.visible(now) || q.fifo && busy[m.group] || q.giveUp(s, m) {
			continue
		}
		if m.receives == 0 {
			m.firstReceived = now
		}
		m.receives++
		m.lastReceived, m.receipt = now, newID()
		if !duplicate {
			m.visibleAt = now.Add(visibility)
		}
		found = append(found, m)
	}
	return found
}

// giveUp moves a message to the dead-letter queue that was received too often.
func (q *queue) giveUp(s *Server, m *message) bool {
	if q.redrive == nil || m.receives < int(q.redrive.Max) {
		return false
	}
	dead := s.byARN(q.redrive.Target)
	if dead == nil {
		return false
	}
	q.messages = slices.DeleteFunc(q.messages, func(o *message) bool { return o == m })
	m.source = q.arn()
	dead.messages = append(dead.messages, m)
	s.wake()
	return true
}

// byReceipt finds the message of a receipt handle; nil if that is not the handle of a message's latest receive.
func (q *queue) byReceipt(handle string) *message {
	for _, m := range q.messages {
		if m.receipt == handle && handle != "" {
			return m
		}
	}
	return nil
}

// counts are the numbers of messages that wait, are in flight, and are delayed.
func (q *queue) counts(now time.Time) (waiting, inFlight, delayed int) {
	for _, m := range q.messages {
		switch {
		case m.visible(now):
			waiting++
		case m.inFlight(now):
			inFlight++
		default:
			delayed++
		}
	}
	return waiting, inFlight, delayed
}

// attributes are the queue's, as GetQueueAttributes spells them.
func (q *queue) attributes(now time.Time) map[string]string {
	waiting, inFlight, delayed := q.counts(now)
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
	a := map[string]string{
		"QueueArn":                              q.arn(),
		"ApproximateNumberOfMessages":           strconv.Itoa(waiting),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(inFlight),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(delayed),
		"CreatedTimestamp":                      strconv.FormatInt(q.created.Unix(), 10),
		"VisibilityTimeout":                     seconds(q.visibility),
		"DelaySeconds":                          seconds(q.delay),
		"ReceiveMessageWaitTimeSeconds":         seconds(q.wait),
		"MessageRetentionPeriod":                seconds(q.retention),
		"MaximumMessageSize":                    strconv.Itoa(maxMessageBytes),
	}
	if q.fifo {
		a["FifoQueue"] = "true"
		a["ContentBasedDeduplication"] = strconv.FormatBool(q.contentDedup)
	}
	if q.redrive != nil {
		policy, err := json.Marshal(map[string]any{"deadLetterTargetArn": q.redrive.Target,
			"maxReceiveCount": int(q.redrive.Max)})
		if err != nil {
			panic(err) // a string and a number
		}
		a["RedrivePolicy"] = string(policy)
	}
	return a
}

// set changes attributes of the queue. Nothing is changed if one of them cannot be.
func (q *queue) set(s *Server, attributes map[string]string) *apiError {
	changed := *q
	bounded := func(name, value string, lo, hi time.Duration, d *time.Duration) *apiError {
		n, err := strconv.Atoi(value)
		if err != nil || time.Duration(n)*time.Second < lo || time.Duration(n)*time.Second > hi {
			return newError("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
		}
		*d = time.Duration(n) * time.Second
		return nil
	}
	for name, value := range attributes {
		var err *apiError
		switch name {
		case "VisibilityTimeout":
			err = bounded(name, value, 0, maxVisibility, &changed.visibility)
		case "DelaySeconds":
			err = bounded(name, value, 0, maxDelay, &changed.delay)
		case "ReceiveMessageWaitTimeSeconds":
			err = bounded(name, value, 0, maxWait, &changed.wait)
		case "MessageRetentionPeriod":
			err = bounded(name, value, time.Minute, 14*24*time.Hour, &changed.retention)
		case "ContentBasedDeduplication":
			changed.contentDedup = value == "true"
		case "FifoQueue":
			if value != strconv.FormatBool(q.fifo) {
				err = newError("InvalidAttributeValue",
					"A queue is FIFO when its name ends with .fifo, and the attribute has to agree.")
			}
		case "RedrivePolicy":
			changed.redrive, err = s.redriveOf(q, value)
		default:
			err = unsupported("the queue attribute %s", name)
		}
		if err != nil {
			return err
		}
	}
	*q = changed
	return nil
}

// redriveOf reads a policy for a queue; empty takes it away.
func (s *Server) redriveOf(q *queue, policy string) (*redrive, *apiError) {
	if policy == "" {
		return nil, nil
	}
	var r redrive
	if err := json.Unmarshal([]byte(policy), &r); err != nil || r.Max < 1 || r.Max > 1000 {
		return nil, badValue(policy, "RedrivePolicy",
			"it must be JSON with deadLetterTargetArn and a maxReceiveCount from 1 to 1000")
	}
	dead := s.byARN(r.Target)
	if dead == nil || dead.fifo != q.fifo {
		return nil, badValue(policy, "RedrivePolicy", "Dead letter target does not exist, or is not of the queue's type.")
	}
	return &r, nil
}

// newID is a name that no one guesses, in the shape of a UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func checksum(body string) string {
	sum := md5.Sum([]byte(body)) //nolint:gosec // the protocol's checksum
	return hex.EncodeToString(sum[:])
}
