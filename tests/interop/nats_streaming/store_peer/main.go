// A peer for tests: opens a store with the original's own package and does one thing with it.
//
//	peer read FOLDER CHANNEL             prints each message: sequence, timestamp, payload in hex
//	peer append FOLDER CHANNEL COUNT     appends messages "go N"
//	peer hold FOLDER                     recovers the store, prints "open", keeps it open until stdin's end
//	peer lock FOLDER                     takes the lock of a fault tolerant server, prints its success, waits for stdin's end
package main

import (
	"bufio"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-streaming-server/logger"
	"github.com/nats-io/nats-streaming-server/spb"
	"github.com/nats-io/nats-streaming-server/stores"
	"github.com/nats-io/stan.go/pb"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func main() {
	polynomial := flag.Int64("file_crc_poly", 0xedb88320, "as the server's")
	maxMsgs := flag.Int("max_msgs", 0, "as the server's")
	maxBytes := flag.Int64("max_bytes", 0, "as the server's")
	sliceMsgs := flag.Int("file_slice_max_msgs", 0, "as the server's")
	sliceBytes := flag.Int64("file_slice_max_bytes", 64<<20, "as the server's")
	unbuffered := flag.Bool("unbuffered", false, "write each record on its own")
	clusterID := flag.String("cluster_id", "test-cluster", "of a store that append makes")
	first := flag.Int64("first_time", 0, "timestamp of the first message that append writes, ns; 0 is now")
	flag.Parse()
	command, folder := flag.Arg(0), flag.Arg(1)

	limits := stores.DefaultStoreLimits
	limits.MaxMsgs, limits.MaxBytes = *maxMsgs, *maxBytes
	options := []stores.FileStoreOption{
		stores.CRCPolynomial(*polynomial),
		stores.SliceConfig(*sliceMsgs, *sliceBytes, 0, ""),
	}
	if *unbuffered {
		options = append(options, stores.BufferSize(0))
	}
	log := logger.NewStanLogger()
	store, err := stores.NewFileStore(log, folder, &limits, options...)
	check(err)
	if command == "lock" {
		ok, err := store.GetExclusiveLock()
		check(err)
		fmt.Println(ok)
		io.Copy(io.Discard, os.Stdin)
		return
	}
	state, err := store.Recover()
	check(err)
	if command == "hold" {
		fmt.Println("open")
		io.Copy(io.Discard, os.Stdin)
		check(store.Close())
		return
	}
	channels := map[string]*stores.Channel{}
	if state == nil {
		id := *clusterID
		check(store.Init(&spb.ServerInfo{
			ClusterID: id, Discovery: "_STAN.discover." + id, Publish: "_STAN.pub." + id,
			Subscribe: "_STAN.sub." + id, Unsubscribe: "_STAN.unsub." + id, Close: "_STAN.close." + id,
			SubClose: "_STAN.subclose." + id, AcksSubs: "_STAN.ack." + id,
		}))
	} else {
		for name, recovered := range state.Channels {
			channels[name] = recovered.Channel
		}
	}
	name := flag.Arg(2)
	channel := channels[name]
	switch command {
	case "read":
		if channel == nil {
			check(fmt.Errorf("no channel %q", name))
		}
		out := bufio.NewWriter(os.Stdout)
		if state != nil {
			fmt.Fprintln(out, "cluster", state.Info.ClusterID)
		}
		first, last, err := channel.Msgs.FirstAndLastSequence()
		check(err)
		count, size, err := channel.Msgs.State()
		check(err)
		fmt.Fprintln(out, "state", first, last, count, size)
		for sequence := first; sequence <= last && count > 0; sequence++ {
			message, err := channel.Msgs.Lookup(sequence)
			check(err)
			if message == nil {
				continue
			}
			fmt.Fprintln(out, "message", message.Sequence, message.Timestamp, message.Subject+":"+hex.EncodeToString(message.Data))
		}
		check(out.Flush())
	case "append":
		if channel == nil {
			channel, err = store.CreateChannel(name)
			check(err)
		}
		count, err := strconv.Atoi(flag.Arg(3))
		check(err)
		_, last, err := channel.Msgs.FirstAndLastSequence()
		check(err)
		for i := 1; i <= count; i++ {
			sequence := last + uint64(i)
			now := time.Now().UnixNano()
			if *first != 0 {
				now = *first + int64(i-1)*1000
			}
			_, err := channel.Msgs.Store(&pb.MsgProto{
				Sequence: sequence, Subject: name, Data: []byte(fmt.Sprintf("go %d", sequence)), Timestamp: now,
			})
			check(err)
		}
		check(channel.Msgs.Flush())
	default:
		check(fmt.Errorf("unknown command %q", command))
	}
	check(store.Close())
}
