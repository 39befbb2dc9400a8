# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_skyhaul_global_optspecs
    string join \n config= show-config h/help V/version
end

function __fish_skyhaul_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_skyhaul_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_skyhaul_using_subcommand
    set -l cmd (__fish_skyhaul_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c skyhaul -n "__fish_skyhaul_needs_command" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_needs_command" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "demo" -d 'Run the whole chain on this machine, without setup'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "send" -d 'Send a file, a recording, a pattern, noise or a sky as packets'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "receive" -d 'Receive streams and write them to a file or standard output, or discard them'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "schedule" -d 'Check the schedule of an observation: what is recorded when, space, rate, conflicts'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "record" -d 'Record streams onto disks, and forward them'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "serve" -d 'Run a station as a service: recordings of several inputs, an HTTP API'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "status" -d 'Show what a station records, and its disks'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "top" -d 'Watch a station in the terminal: rates, losses, disks, alarms, events'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "station" -d 'Start and stop recordings of a station'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "scans" -d 'List the scans on a station\'s disks: state, disks, times, losses, copies to other hosts'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "token" -d 'Sign tokens for the files that a station serves, and show what a token allows'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "transfers" -d 'Copy scans of a station to other hosts: queue, list, cancel, retry'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "fleet" -d 'Show and direct a fleet of stations: schedules, scans, alarms'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "ls" -d 'List recordings'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "check" -d 'Check that a recording holds everything that was acknowledged'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "cat" -d 'Write a recording to standard output'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "mount" -d 'Mount recordings: each scan one file'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "plot" -d 'Plot samples: spectrum, autocorrelation, levels, losses'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "export" -d 'Write samples as NumPy, raw numbers, HDF5 or Zarr'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "inspect" -d 'Show packets of a file, a capture or a live port, field by field'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "balance" -d 'Balance packets from many senders over many workers; each event goes to one worker'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "balancer" -d 'Reserve, manage and release a load balancer of skyhaul or ESnet'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "rdma" -d 'Expose memory of this host over RDMA on UDP or TCP, and write to or read from that of another'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "copy" -d 'Copy files, directories and recordings to or from another host'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "host" -d 'Audit this host\'s settings for high-rate data, and fix them'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "lab" -d 'Emulate a path between two hosts on this machine: rate, delay, loss, reordering, policers'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "bench" -d 'Measure this machine\'s receive, send and record paths against bare loops'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "probe" -d 'Measure the rate, loss, reordering, jitter and delay of a path, and find where packets are lost'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "disk" -d 'Measure how fast disks write and read, and whether they or the network limit a transfer'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "data-plane" -d 'Forward packets for a balancer whose control plane runs in another process'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "packet-path" -d 'Pass fixed packets through the receive path, for a profiler to count instructions'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "report" -d 'Compare reports'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "generate" -d 'Write man pages or shell completions'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l rate -d 'Rate of the stream (default: 4Gbps, or as much of it as this host can handle; for events 1Gbps)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l duration -d 'Length of the stream' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l disks -d 'Disks to stripe over' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l faults -d 'Faults of the network' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l directory -d 'Directory for the recording and the report (default: ./demo, or ./demo-ejfat)' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l keep -d 'Keep the recording'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l input -d 'Send this file: its frames, heaps or events; may be repeated for events' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l scan -d 'Send this recording. Only with --disk' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l disk -d 'A disk of the recording; may be repeated. Only with --scan' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l sky -d 'Send 2-bit samples of a sky that stations share, with delay and fringe, like station=Ef,delay=1.25us. Only for frames' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l format -d 'Format of the packets: vdif, mark5b, fila10g, lofar, spead, ejfat, or auto (that of the file)' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l loop -d 'Send the input this many times; each pass after the first has new times that continue the pass before. Only with --input' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l stream -d 'Number of the recording\'s stream, if it has several. Only with --scan' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l to -d 'Destination address; may be repeated, and each gets everything from senders of its own' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l senders -d 'Senders to each destination, each from a port of its own' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l rate -d 'Rate of datagram payload, like 1Gbps; or `max`, `auto`, `search`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l max-wait -d 'Longest wait for a gap in recorded frames that are sent at their own pace. Only for frames or recordings (--scan)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l packets -d 'Stop after this many packets. Only for frames or recordings (--scan)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l duration -d 'Stop after this long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l payload -d 'Payload of a generated frame, in bytes. Only for a pattern, noise or sky' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l threads -d 'VDIF threads of a generated stream. Only for a pattern, noise or sky' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l frame-rate -d 'Frames per second of each thread (default: from the headers, otherwise from the rate)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l start -d 'Time of the first generated frame, in whole seconds (default: now). Only for a pattern, noise or sky' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l sequence -d 'Sequence number before each frame' -r -f -a "auto\t'Little-endian over UDP, none over TCP'
little\t'Little-endian, as FILA10G, DBBC3 and jive5ab send it'
big\t'Big-endian'
none\t'No sequence number'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l first -d 'First sequence number' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l cpu -d 'CPUs for the sending threads, like 2,3, assigned in turn' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l mode -d 'How to hand packets to the kernel. Only for udp:// addresses' -r -f -a "auto\t'The fastest that works on this host'
gso\t'Trains of packets in one system call (UDP_SEGMENT)'
mmsg\t'Several packets in one system call'
plain\t'One packet in one system call'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l faults -d 'Lose, reorder, duplicate or damage packets on purpose, like loss=0.01,reorder=64,duplicate=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l heap-size -d 'Payload of a heap' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l heaps -d 'Stop after this many heaps from each sender (default: at --duration or Ctrl-C)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l packet -d 'Packet size with SPEAD header; `mtu`: the largest that the route carries; `heap`: one packet per heap, for TCP' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l flavour -d 'SPEAD-64-N: bits of the value or address in an item pointer' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l items -d 'Number of items in a heap\'s payload' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l first-heap -d 'First heap counter' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l heap-step -d 'Step from one heap\'s counter to the next' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l event -d 'Bytes of an event, at most 4 GiB - 1, or a range such as 1KiB..1MiB (default: 1MiB, or an input file each)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l seed -d 'Seed of the sizes of a range' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l events -d 'Stop after this many events from each sender (default: at --duration, Ctrl-C or the end of the input)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l event-rate -d 'Events per second of each sender, at equal intervals; --rate limits it too' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l delay -d 'Pause after events; see --delay-every' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l delay-every -d 'Events between two pauses of --delay. Only with --delay' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l mtu -d 'Largest IP packet in bytes; `auto`: what the route carries' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l tick -d 'First tick (event number); `clock`: microseconds since 1970' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l tick-step -d 'Step from one tick to the next. Only with --tick' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l data-id -d 'Data id of the first sender, which names the source; further senders have the next ones' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l lb-version -d 'Version of the balancer\'s header: 2 or 3' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l slot -d 'Slot of an event in version 3: `tick`, its low bits, or `spread`, evenly whatever the step' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l entropy -d 'Chooses the receiver\'s port: a number, `source` (the data id), or `event` (evenly, event by event)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l re-version -d 'Version in the reassembly header: 1; 0 or 2 for receivers that expect what udplbd or packetBlaster send' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l sockets -d 'Sockets of each sender, each with a source port of its own, used in turn' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l socket-buffer -d 'Send buffer of each socket' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities). Only with --join' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l sync -d 'Address for synchronisation messages (default: sync= of the URI)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l sync-period -d 'Time between synchronisation messages' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l warm-up -d 'Time from the first synchronisation message to the first event' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l pattern -d 'Send payloads that verify themselves'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l noise -d 'Send 2-bit Gaussian noise with a tone. Only for frames'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l restamp -d 'Give the frames new times that begin now, by adding the same whole number of seconds to each. Only for frames or recordings (--scan)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l follow -d 'Follow the recording while it is being written. Only with --scan'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l fill -d 'Send invalid frames in place of missing or damaged chunks of the recording (default: skip them). Only with --scan'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l repeat-pointers -d 'Repeat all item pointers in every packet, so that a heap survives the loss of its first packet'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l substreams -d 'Send heaps to the destinations in turn, as substreams of one sender (default: every heap to each)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l full-packets -d 'Fill every packet but a heap\'s last, as spead2 does (default: packets of equal size)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l bare -d 'Send no item descriptors and no stop heap'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l join -d 'Join the balancer as a sender: ask its control plane to admit this host, and report what it refused (exit status 1)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l any-certificate -d 'Accept any certificate of the control plane. Only with --join'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l ipv6 -d 'Use the IPv6 addresses of a URI'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l listen -d 'Address to listen on, like udp://10.0.2.5:46227; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l pcap -d 'Read packets from this capture file instead (pcap, pcapng)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l from -d 'Accept only this sender, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010 or :5000; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l max-streams -d 'Maximum number of senders followed at a time' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l forward -d 'Forward everything to this address as it arrives; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l duration -d 'Stop this long after the first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l idle -d 'Stop after this long without an accepted packet, once one has arrived, or 100 that are refused' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l wait -d 'Give up if no packet arrives within this time of the start' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l bytes -d 'Stop after about this many bytes' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l start-at -d 'Start at this wall-clock time (UTC), like 2026-11-21T03:00:00Z; earlier packets are counted and dropped' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l stop-at -d 'Stop at this wall-clock time (UTC)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l memory -d 'Memory for packets (default: a quarter of the machine\'s, at most 4 GiB)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l chunk -d 'Size of a chunk file and of a memory block (default: 1/256 of the memory, from 1 MiB to 256 MiB). Only for frames' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l flush -d 'Longest time that data of a slow stream stay in memory. Only for frames' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l socket-buffer -d 'UDP socket buffer to request. Only for udp:// addresses' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l receive-threads -d 'Sockets and threads for each UDP address; senders are spread over them. Only for udp:// addresses' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l cpus -d 'CPUs for the receiving threads, like 2,3' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l realtime -d 'Real-time priority of the receiving threads, 1 to 99' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l tier -d 'How to receive UDP. Only for udp:// addresses' -r -f -a "auto\t'Stage, or a ring if many small single packets come and this process may open one'
stage\t'Trains of packets in one system call (UDP_GRO)'
plain\t'As stage, without trains'
ring\t'A ring shared with the kernel (needs CAP_NET_RAW)'
bpf\t'A program in the kernel places VDIF and LOFAR streams and SPEAD heaps (needs CAP_BPF). If it cannot, the command fails and says why'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l faults -d 'Inject faults into what arrives, like loss=0.01,reorder=64,duplicate=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l format -d 'Format of the packets: auto, vdif, mark5b, fila10g, lofar, spead, ejfat' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l start -d 'Begin at this data time (UTC), and keep no earlier frames: 2026-11-21T03:00:00Z, 2026y325d03h00m00s as in VEX, or a Unix time in seconds; fractions of a second are rounded up' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l stop -d 'Stop at this data time (UTC), and keep no frames from it on' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l station -d 'Accept only streams of this VDIF station, two letters or a number as `inspect` shows it; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l window -d 'Blocks kept open for each stream; more blocks absorb more reordering' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l frame-rate -d 'Frames per second of each VDIF thread, if the headers do not give it' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l threads -d 'VDIF threads of a stream, like 0-7 or 0,2,4 (default: those that arrive)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l place -d 'What gives a packet\'s position in the stream' -r -f -a "auto\t'Sequence number if packets carry one, otherwise time'
sequence\t'Sequence number'
time\t'Time in the frame header'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l keep -d 'Part of each packet to keep' -r -f -a "frame\t'The frame with its header, without the network\'s sequence number'
packet\t'The whole packet'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l strip -d 'Drop this many leading bytes of each packet (instead of --keep)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l heap-window -d 'Incomplete heaps held at a time; more heaps absorb more reordering' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l largest-heap -d 'Largest heap or event to accept (default: 256MiB for heaps, 4GiB for events, limited by --memory)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l heap-timeout -d 'Give up an incomplete heap this long after its first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l remember -d 'How long finished heaps are remembered, so that their late and duplicate packets are refused; 0: a late packet starts its heap again' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l stop-items -d 'Stop items that end the stream: `first`, `never` or a number. Only for SPEAD heaps' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l heaps -d 'Stop after this many heaps' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l start-heap -d 'Ignore heaps with a smaller counter' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s o -l output-file -d 'Write the data to this file, `-` for standard output (default: discard them). An existing file is replaced when the first data arrive' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l list -d 'Write a line for each heap or event to this file: its number, source, bytes received and bytes missing' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l work -d 'Spend this time on each heap or event, as a program that processes them would' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l build -d 'Build ticks: deliver the events of a tick together, once those of these data ids (such as 1,2,5-8), or of any N sources (any:N), have arrived' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l build-timeout -d 'End a tick this long after its first event, with the events that have arrived. Only with --build' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l build-window -d 'Ticks held at a time; one more ends the oldest. Only with --build' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l build-memory -d 'Memory for the events of unfinished ticks that --output-file writes; more end the oldest tick. Only with --build' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l balancer -d 'EJFAT_URI of the balancer (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l name -d 'Name in the balancer\'s status (default: host and process)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l address -d 'Address at which the balancer reaches this receiver (default: that of --listen, or of the route to the balancer)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l weight -d 'Initial weight relative to other workers' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l min-factor -d 'Minimum share, as a fraction of an even share; 0: no minimum' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l max-factor -d 'Maximum share, as a multiple of an even share; 0: no maximum' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l ports -d 'Number of consecutive ports from that of --listen, a power of two; each has a socket and a thread' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l drain -d 'Longest time to wait for the last packets when leaving' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l end-with-connections -d 'Stop when the last TCP connection has closed. Only for tcp:// addresses'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l feedback -d 'Report to senders what arrives, for their `--rate auto`. Only for udp:// addresses'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l split-threads -d 'Make a separate stream of each VDIF thread of a sender'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l keep-partial-sets -d 'Keep incomplete sets of threads at the start and end of a stream (default: only whole sets, as VDIF readers expect)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l by-sender -d 'Tell heaps apart by sender as well as by counter, for senders that count independently'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l in-order -d 'Require the packets of a heap in order, as spead2 does by default'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l incomplete -d 'Write incomplete heaps and events too, with zeros in their gaps. Only with --output-file'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l verify -d 'Check every payload against what `send --pattern` sends'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l join -d 'Join a load balancer: register with its control plane, report this receiver\'s backlog, and leave at the end. Only for EJFAT events'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l keep-label -d 'Ask the balancer to leave its header on packets'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -f -a "check" -d 'Show what a station will record when, and what prevents it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -f -a "load" -d 'Let a running station follow a schedule'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -f -a "list" -d 'Show the schedules of a running station, or each scan of one'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -f -a "remove" -d 'Remove a schedule from a running station; what is recorded of it continues to its end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and not __fish_seen_subcommand_from check load list remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l station -d 'Station whose scans count, like Mh; needed if the schedule has several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l format -d 'Format of the schedule (default: found from its first statement)' -r -f -a "vex\t'VEX 1.5 or 2.0'
snap\t'SNAP, as drudg writes it'
toml\t'A list of scans'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l procedures -d 'Procedures of the Field System, which set the rates of a .snp schedule (default: FILE with the ending .prc, if it exists)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l from -d 'Only scans that end after this time (UTC), like 2026-11-21T03:00:00Z, or now' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l until -d 'Only scans that start before this time (UTC)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l disk -d 'Compare with the free space of this disk: a directory; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l copies -d 'Copies of each chunk, as of record: the disks have room and rate for that much less' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l rate -d 'Highest rate of samples that the station can record' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l min-gap -d 'Shorter gaps between scans are reported' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l deliver -d 'Copy recordings to this directory of a destination of the station\'s configuration; one for each disk that a recording may be on' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l deliver-after -d 'Deliver after each scan, or after the last one' -r -f -a "scan\t'After its scan'
session\t'After the last scan of the schedule'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l deliver-hours -d 'Copy at this time of the day only, UTC, like 22:00-06:00 (default: always)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l deliver-priority -d 'Copies of a higher priority begin first, -9 to 9' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l deliver-rate -d 'Maximum rate of each copy' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l json -d 'Print one JSON report on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l station -d 'Station whose scans count, like Mh; needed if the schedule has several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l format -d 'Format of the schedule (default: found from its first statement)' -r -f -a "vex\t'VEX 1.5 or 2.0'
snap\t'SNAP, as drudg writes it'
toml\t'A list of scans'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l procedures -d 'Procedures of the Field System, which set the rates of a .snp schedule (default: FILE with the ending .prc, if it exists)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l input -d 'Input of the station (default: the first one)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l deliver -d 'Copy recordings to this directory of a destination of the station\'s configuration; one for each disk that a recording may be on' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l deliver-after -d 'Deliver after each scan, or after the last one' -r -f -a "scan\t'After its scan'
session\t'After the last scan of the schedule'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l deliver-hours -d 'Copy at this time of the day only, UTC, like 22:00-06:00 (default: always)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l deliver-priority -d 'Copies of a higher priority begin first, -9 to 9' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l deliver-rate -d 'Maximum rate of each copy' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l server -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l replace -d 'Take the place of a schedule of the same name'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l force -d 'Load it although some scans cannot be recorded as scheduled'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from load" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from list" -l server -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from list" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from list" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from list" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from list" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l server -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "check" -d 'Show what a station will record when, and what prevents it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "load" -d 'Let a running station follow a schedule'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show the schedules of a running station, or each scan of one'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a schedule from a running station; what is recorded of it continues to its end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l listen -d 'Address to listen on, like udp://10.0.2.5:46227; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l pcap -d 'Read packets from this capture file instead (pcap, pcapng)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l from -d 'Accept only this sender, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010 or :5000; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l max-streams -d 'Maximum number of senders followed at a time' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l forward -d 'Forward everything to this address as it arrives; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l duration -d 'Stop this long after the first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l idle -d 'Stop after this long without an accepted packet, once one has arrived, or 100 that are refused' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l wait -d 'Give up if no packet arrives within this time of the start' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l bytes -d 'Stop after about this many bytes' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l start-at -d 'Start at this wall-clock time (UTC), like 2026-11-21T03:00:00Z; earlier packets are counted and dropped' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l stop-at -d 'Stop at this wall-clock time (UTC)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l memory -d 'Memory for packets (default: a quarter of the machine\'s, at most 4 GiB)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l chunk -d 'Size of a chunk file and of a memory block (default: 1/256 of the memory, from 1 MiB to 256 MiB)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l flush -d 'Longest time that data of a slow stream stay in memory' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l socket-buffer -d 'UDP socket buffer to request. Only for udp:// addresses' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l receive-threads -d 'Sockets and threads for each UDP address; senders are spread over them. Only for udp:// addresses' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l cpus -d 'CPUs for the receiving threads, like 2,3' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l realtime -d 'Real-time priority of the receiving threads, 1 to 99' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l tier -d 'How to receive UDP. Only for udp:// addresses' -r -f -a "auto\t'Stage, or a ring if many small single packets come and this process may open one'
stage\t'Trains of packets in one system call (UDP_GRO)'
plain\t'As stage, without trains'
ring\t'A ring shared with the kernel (needs CAP_NET_RAW)'
bpf\t'A program in the kernel places VDIF and LOFAR streams and SPEAD heaps (needs CAP_BPF). If it cannot, the command fails and says why'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l faults -d 'Inject faults into what arrives, like loss=0.01,reorder=64,duplicate=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l format -d 'Format of the packets: auto, vdif, mark5b, fila10g, lofar, spead, ejfat' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l start -d 'Begin at this data time (UTC), and keep no earlier frames: 2026-11-21T03:00:00Z, 2026y325d03h00m00s as in VEX, or a Unix time in seconds; fractions of a second are rounded up' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l stop -d 'Stop at this data time (UTC), and keep no frames from it on' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l station -d 'Accept only streams of this VDIF station, two letters or a number as `inspect` shows it; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l window -d 'Blocks kept open for each stream; more blocks absorb more reordering' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l frame-rate -d 'Frames per second of each VDIF thread, if the headers do not give it' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l threads -d 'VDIF threads of a stream, like 0-7 or 0,2,4 (default: those that arrive)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l place -d 'What gives a packet\'s position in the stream' -r -f -a "auto\t'Sequence number if packets carry one, otherwise time'
sequence\t'Sequence number'
time\t'Time in the frame header'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l keep -d 'Part of each packet to keep' -r -f -a "frame\t'The frame with its header, without the network\'s sequence number'
packet\t'The whole packet'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l strip -d 'Drop this many leading bytes of each packet (instead of --keep)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l heap-window -d 'Incomplete heaps held at a time; more heaps absorb more reordering' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l largest-heap -d 'Largest heap or event to accept (default: 256MiB for heaps, 4GiB for events, limited by --memory)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l heap-timeout -d 'Give up an incomplete heap this long after its first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l remember -d 'How long finished heaps are remembered, so that their late and duplicate packets are refused; 0: a late packet starts its heap again' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l stop-items -d 'Stop items that end the stream: `first`, `never` or a number. Only for SPEAD heaps' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l heaps -d 'Stop after this many heaps' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l start-heap -d 'Ignore heaps with a smaller counter' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l disk -d 'A disk: a directory, usually a mount point; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l scan -d 'Name of the recording, like exp_st_no0001' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l schedule -d 'Record the scans of this schedule, each at its time: VEX, SNAP (.snp) or TOML, as `schedule check` shows it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l schedule-station -d 'Station whose scans of the schedule are recorded, like Mh' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l copies -d 'Write each chunk to this many different disks: one that fails then loses nothing. The disks need that many times the rate and space' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l exists -d 'What to do if the recording already exists' -r -f -a "suffix\t'Append a letter to the new one\'s name, a to z, then A to Z'
error\t'Refuse to record'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l reserve -d 'Free space to leave on each disk' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l space-alarm -d 'Warn when all disks will be full within this time at the current rate, and again at a tenth of it' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l sync -d 'When data are flushed to the disk, and so acknowledged' -r -f -a "chunk\t'After every chunk'
interval\t'Several times a second, all chunks together'
none\t'Left to the operating system'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l disk-engine -d 'How to write to disks' -r -f -a "auto\t'io_uring if it is permitted, otherwise pwrite'
uring\t'io_uring'
plain\t'pwrite'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l phase-cal -d 'Phase-cal tones that every channel must have: their spacing, and where in the band the first is, like 1MHz or 5MHz@10kHz (default: tones that were there must stay). Only for frames' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l disk-faults -d 'Inject faults into a disk: `PATH:slow=200`, `PATH:enospc=1GiB`, `PATH:eio=1GiB`, `PATH:eagain=3`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l end-with-connections -d 'Stop when the last TCP connection has closed. Only for tcp:// addresses'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l feedback -d 'Report to senders what arrives, for their `--rate auto`. Only for udp:// addresses'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l split-threads -d 'Make a separate stream of each VDIF thread of a sender'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l keep-partial-sets -d 'Keep incomplete sets of threads at the start and end of a stream (default: only whole sets, as VDIF readers expect)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l by-sender -d 'Tell heaps apart by sender as well as by counter, for senders that count independently'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l in-order -d 'Require the packets of a heap in order, as spead2 does by default'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l no-fill -d 'Write nothing for lost frames, instead of frames marked invalid. Only for frames'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l no-quality -d 'Do not look at the quality of the streams (states of samples, byte order, times, phase-cal tones). Only for frames'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand serve" -l listen -d 'Address of the HTTP API, in place of `listen` in the configuration' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand serve" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand serve" -l check -d 'Check the configuration, and exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand serve" -l test-alarms -d 'Send a test message to every receiver of alarms, say what each answered, and exit: with 1 if one did not take it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand serve" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand serve" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand status" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand status" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand status" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand status" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand status" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand status" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -l fleet -d 'Show all stations of a fleet: that of the section [fleet] of `--config`'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -l once -d 'Print the figures once, and exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand top" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and not __fish_seen_subcommand_from start stop help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and not __fish_seen_subcommand_from start stop help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and not __fish_seen_subcommand_from start stop help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and not __fish_seen_subcommand_from start stop help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and not __fish_seen_subcommand_from start stop help" -f -a "start" -d 'Start a recording; returns when it is ready for the first packet'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and not __fish_seen_subcommand_from start stop help" -f -a "stop" -d 'Stop a recording; returns when everything is on the disks'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and not __fish_seen_subcommand_from start stop help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l input -d 'Input of the station (default: the first one)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l memory -d 'Memory of the recording (default: that of the input)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l stop -d 'Stop at this data time (UTC), like 2026-11-27T12:00:00Z' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from start" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -l no-wait -d 'Return immediately'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from stop" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from help" -f -a "start" -d 'Start a recording; returns when it is ready for the first packet'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from help" -f -a "stop" -d 'Stop a recording; returns when everything is on the disks'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand station; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -l rebuild -d 'Have the station read the indexes of all scans again'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand scans" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and not __fish_seen_subcommand_from create show help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and not __fish_seen_subcommand_from create show help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and not __fish_seen_subcommand_from create show help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and not __fish_seen_subcommand_from create show help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and not __fish_seen_subcommand_from create show help" -f -a "create" -d 'Sign a token with the station\'s key, and print it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and not __fish_seen_subcommand_from create show help" -f -a "show" -d 'Show what a token says, and whether the station would accept it now'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and not __fish_seen_subcommand_from create show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from create" -l scope -d 'What the token allows, such as storage.read:/exp; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from create" -l lifetime -d 'How long the token holds, at most 30d; it cannot be revoked' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from create" -l subject -d 'For whom it is: limits of copies count all tokens with the same subject together' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from create" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from create" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from show" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from show" -l json -d 'Print it as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from show" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "create" -d 'Sign a token with the station\'s key, and print it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show what a token says, and whether the station would accept it now'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -f -a "add" -d 'Copy scans to another host; returns when the path was tried and the queue is kept'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -f -a "cancel" -d 'End a copy; returns when it has ended'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -f -a "retry" -d 'Try a copy again that failed, was cancelled, or waits for its next attempt'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -f -a "rm" -d 'Forget a copy that has ended; what is at its destination stays there'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and not __fish_seen_subcommand_from add cancel retry rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l at -d 'Begin at this time: of the day, UTC (22:00), or like 2026-11-27T22:00:00Z (default: now)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l rate -d 'Maximum rate of each copy; recordings and the configuration may slow it further' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l schedule -d 'Also copy all recordings of this schedule; scans may then be omitted' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l hours -d 'Copy at this time of the day only, UTC, like 22:00-06:00 (default: always)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l priority -d 'Copies of a higher priority begin first, -9 to 9' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l encrypt -d 'Encrypt the contents of files, also if the destination is configured without'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from add" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from cancel" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from cancel" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from cancel" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from cancel" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from cancel" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from cancel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from cancel" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from retry" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from retry" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from retry" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from retry" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from retry" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from retry" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from retry" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from rm" -l station -d 'Address of the station\'s HTTP API' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from rm" -l token-file -d 'File with the station\'s token' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from rm" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from rm" -l json -d 'Print the reply as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from rm" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from rm" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from help" -f -a "add" -d 'Copy scans to another host; returns when the path was tried and the queue is kept'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from help" -f -a "cancel" -d 'End a copy; returns when it has ended'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from help" -f -a "retry" -d 'Try a copy again that failed, was cancelled, or waits for its next attempt'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from help" -f -a "rm" -d 'Forget a copy that has ended; what is at its destination stays there'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand transfers; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -f -a "status" -d 'Show stations, recorders, desired and closed scans, replicas and alarms'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -f -a "load" -d 'Check schedules, and have stations follow them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -f -a "start" -d 'Desire a scan at stations, and wait for their answers'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -f -a "stop" -d 'End a desired scan at stations, and wait for their answers'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -f -a "run" -d 'Load the schedule of an experiment, and follow it until each station has closed its scans'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and not __fish_seen_subcommand_from status load start stop run help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l experiment -d 'Show each closed scan of this experiment' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l fleet -d 'Name of the fleet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l endpoint -d 'Client URL of a member of etcd, such as https://etcd1.example:2379; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l user-file -d 'File with name:password of a user of etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l authority -d 'Certificate of the authority that signed those of etcd (default: the authorities of the system)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l certificate -d 'Certificate shown to etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l key -d 'Private key of the certificate' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l watch -d 'Show it in the terminal, again and again, until q or Ctrl-C'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l plain -d 'Accept http:// to other hosts: nothing is encrypted, and no password is sent'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l json -d 'Print the result as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from status" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l station -d 'Station that is to follow them; may be repeated (default: all with scans to record)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l author -d 'Who loads them, for others to read' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l fleet -d 'Name of the fleet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l endpoint -d 'Client URL of a member of etcd, such as https://etcd1.example:2379; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l user-file -d 'File with name:password of a user of etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l authority -d 'Certificate of the authority that signed those of etcd (default: the authorities of the system)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l certificate -d 'Certificate shown to etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l key -d 'Private key of the certificate' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l dry-run -d 'Check only, and write nothing'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l force -d 'Load them although some scans cannot be recorded as scheduled'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l plain -d 'Accept http:// to other hosts: nothing is encrypted, and no password is sent'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l json -d 'Print the result as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from load" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l station -d 'Station, or one of its recorders as STATION/RECORDER; may be repeated (default: all recorders that are online)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l begin -d 'Begin at this data time (UTC), like 2026-11-27T12:00:00Z (default: now)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l end -d 'End at this data time (UTC) (default: when it is stopped)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l source -d 'Radio source, for others to read' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l mode -d 'Observing mode, for others to read' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l timeout -d 'How long to wait for the answers; a scan that has not begun then is given up' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l fleet -d 'Name of the fleet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l endpoint -d 'Client URL of a member of etcd, such as https://etcd1.example:2379; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l user-file -d 'File with name:password of a user of etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l authority -d 'Certificate of the authority that signed those of etcd (default: the authorities of the system)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l certificate -d 'Certificate shown to etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l key -d 'Private key of the certificate' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l plain -d 'Accept http:// to other hosts: nothing is encrypted, and no password is sent'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l json -d 'Print the result as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from start" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l station -d 'Station, or one of its recorders as STATION/RECORDER; may be repeated (default: all that were to record it)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l timeout -d 'How long to wait for the answers' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l fleet -d 'Name of the fleet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l endpoint -d 'Client URL of a member of etcd, such as https://etcd1.example:2379; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l user-file -d 'File with name:password of a user of etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l authority -d 'Certificate of the authority that signed those of etcd (default: the authorities of the system)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l certificate -d 'Certificate shown to etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l key -d 'Private key of the certificate' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l plain -d 'Accept http:// to other hosts: nothing is encrypted, and no password is sent'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l json -d 'Print the result as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from stop" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l station -d 'Station that is to follow it; may be repeated (default: all with scans to record)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l author -d 'Who loads it, for others to read' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l grace -d 'How long after its end a scan may be closed and published; a station that was never online is given up after it, too' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l fleet -d 'Name of the fleet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l endpoint -d 'Client URL of a member of etcd, such as https://etcd1.example:2379; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l user-file -d 'File with name:password of a user of etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l authority -d 'Certificate of the authority that signed those of etcd (default: the authorities of the system)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l certificate -d 'Certificate shown to etcd' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l key -d 'Private key of the certificate' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l force -d 'Load it although some scans cannot be recorded as scheduled'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l plain -d 'Accept http:// to other hosts: nothing is encrypted, and no password is sent'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l json -d 'Print the result as JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show stations, recorders, desired and closed scans, replicas and alarms'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "load" -d 'Check schedules, and have stations follow them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "start" -d 'Desire a scan at stations, and wait for their answers'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "stop" -d 'End a desired scan at stations, and wait for their answers'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "run" -d 'Load the schedule of an experiment, and follow it until each station has closed its scans'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l disk -d 'A disk: a directory, usually a mount point; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l disk -d 'A disk: a directory, usually a mount point; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l verify -d 'Also check every payload against what `send --pattern` sends'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l repair -d 'Add chunk files that are in no index to the index, as they are'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l disk -d 'A disk: a directory, usually a mount point; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l stream -d 'Number of the stream, if the recording has several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -s o -l output-file -d 'Write to this file (default: standard output)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l follow -d 'Follow the recording while it is being written'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l fill -d 'Write invalid frames in place of missing or damaged chunks, to preserve length and time'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l no-check -d 'Write damaged and unverified chunks as they are (they are still reported)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l disk -d 'A disk: a directory, usually a mount point; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l view -d 'What is shown of each scan' -r -f -a "whole\t'One file'
threads\t'One file, and a further one for each thread: SCAN.thread0'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l timeout -d 'End a read with an input/output error if its disk does not answer for this long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l memory -d 'Memory for data that are read ahead' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l fill -d 'Read missing and damaged bytes as fill (0x11223344) instead of an input/output error'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l no-check -d 'Read damaged and unverified chunks as they are (they are still reported)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l allow-other -d 'Let other users read'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand mount" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l disk -d 'A disk of the recording, also of a FlexBuff or a Mark 6; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l stream -d 'Number of the stream, if the recording has several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l start -d 'Start of the range: a time in UTC (2026-11-21T03:00:00.5, 2026y325d03h00m00.5s), or a time from the first sample on (1.5s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l duration -d 'Length of the range (default: to the end)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l sample-rate -d 'Complete samples per second, like 32MHz, if the headers do not state it' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l threads -d 'Threads of VDIF, in the order of their columns (default: all)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l bits -d 'Mark 5B: bits of a sample (default: 2)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l channels -d 'Mark 5B: number of channels; they take the recorded bitstreams in order' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l mask -d 'Mark 5B: bitstreams that the formatter recorded, as a mask like 0x0000ffff' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l tracks -d 'Mark 5B: bitstreams to decode, numbered as in the mask (default: all of it)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l near -d 'Mark 5B: a time within 500 days of the data (default: that of the recording, or now)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -s o -l output-file -d 'Write the plots to this file, .svg or .png; may be repeated (default: only a sketch in the terminal)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l block -d 'Complete samples in a block of the spectrum (default: 1024, fewer for very many channels)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l samples-at-most -d 'Samples to decode at most, spread evenly over the range' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l all -d 'Decode all samples, however long it takes'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand plot" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l disk -d 'A disk of the recording, also of a FlexBuff or a Mark 6; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l stream -d 'Number of the stream, if the recording has several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l start -d 'Start of the range: a time in UTC (2026-11-21T03:00:00.5, 2026y325d03h00m00.5s), or a time from the first sample on (1.5s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l duration -d 'Length of the range (default: to the end)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l sample-rate -d 'Complete samples per second, like 32MHz, if the headers do not state it' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l threads -d 'Threads of VDIF, in the order of their columns (default: all)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l bits -d 'Mark 5B: bits of a sample (default: 2)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l channels -d 'Mark 5B: number of channels; they take the recorded bitstreams in order' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l mask -d 'Mark 5B: bitstreams that the formatter recorded, as a mask like 0x0000ffff' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l tracks -d 'Mark 5B: bitstreams to decode, numbered as in the mask (default: all of it)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l near -d 'Mark 5B: a time within 500 days of the data (default: that of the recording, or now)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -s o -l output-file -d 'File to write; its extension selects the format: .npy, .f32 (or .raw), .h5, .zarr' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l to -d 'Format of the file, instead of its extension: npy, raw, hdf5 or zarr' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l integers -d 'Write the recorded integers instead of levels'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand export" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l format -d 'Format of the packets: auto, vdif, mark5b, fila10g, lofar, spead, ejfat' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l rdma -d 'Read datagrams as RDMA: bare (DDP alone), uc (with Skyhaul\'s shim), or tcp (MPA frames in a file)' -r -f -a "bare\t''
uc\t''
tcp\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s n -l count -d 'Number of packets to show' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l skip -d 'Packets to skip first' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l wait -d 'Stop after this long without a packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l listen -d 'Address on which packets and synchronisation messages arrive, as senders write it; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l instance-address -d 'Address of one load balancer alone, with the first ports, like 10.0.0.2 or 10.0.0.2,fd00::2; repeat it for the next ones (default: all share --listen and differ by port, and none has port 19522, which clients use that ignore the URI\'s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l data-port -d 'Port for packets of the first load balancer; the others have the next ones' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l sync-port -d 'Port for synchronisation messages of the first load balancer; the others have the next ones' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l instances -d 'Load balancers, each with one reservation at a time (default: 8, or one for each --instance-address)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l reserve -d 'Reserve a load balancer of this name at the start, if it is not reserved yet, and write its EJFAT_URI' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l sender -d 'Host or network that may send to it, like 10.1.0.0/16 (default: this host, if it listens nowhere else). Only with --reserve' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l api -d 'Address of the control plane: gRPC, REST and /metrics' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l token-file -d 'File with the operator\'s token; created with a new token if it does not exist' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l tls-cert -d 'PEM file of the certificate of the control plane (default: no TLS). Only with --tls-key' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l tls-key -d 'PEM file of its private key. Only with --tls-cert' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l upstream-certificate -d 'Trust the certificate of a load balancer that feeds one of these if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l state -d 'Database of reservations, workers and tokens, kept across restarts (default: none, they end with the program)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l uri-file -d 'File for the EJFAT_URI of --reserve, readable by its owner only (default: standard output). Only with --reserve' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l duration -d 'End after this time (default: Ctrl-C)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l threads -d 'Forwarding threads for each address of each load balancer (default: one for each CPU)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l cpus -d 'CPUs for these threads, one each' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l fast-path -d 'Forward in the kernel (XDP) where possible, before the sockets and the host\'s packet filter' -r -f -a "auto\t'If the driver of the interface supports it'
xdp\t'In the driver, or in the generic hook, which is slower; fail if neither works'
off\t'Forward through sockets only (no XDP)'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l socket-buffer -d 'Receive buffer of each thread' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l keep-tokens -d 'Keep tokens valid that were made under another operator\'s token (default: a new token in the file revokes them). Only with --state'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l any-upstream-certificate -d 'Accept any certificate of such a load balancer'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l report -d 'Print a packet summary on exit, by reservation, reason and worker'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l in-process -d 'Forward in this process (default with --state: in a process for each load balancer, which continues if this one is killed)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balance" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "reserve" -d 'Reserve a load balancer, and print its EJFAT_URI'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "status" -d 'Show a reservation: its workers and their shares, its senders and counters'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "overview" -d 'Show all reservations that the token can see'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "extend" -d 'Change when a reservation ends'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "free" -d 'End a reservation'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "reset" -d 'Reset the senders, the workers or the tick sequence'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "senders" -d 'Add or remove senders'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "workers" -d 'Remove a worker'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "tokens" -d 'Create, list and revoke tokens'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "chain" -d 'Accept a part of another load balancer\'s events'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "unchain" -d 'End a chain'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "chains" -d 'Show the load balancers that feed this one, and those that feed them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "version" -d 'Show the version of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and not __fish_seen_subcommand_from reserve status overview extend free reset senders workers tokens chain unchain chains version help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l for -d 'Lifetime from now, like 2h (default of `reserve`: set by the control plane; a year with skyhaul and udplbd)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l sender -d 'Host or network that may send, like 10.1.0.7 or, to skyhaul, 10.1.0.0/16; may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l strategy -d 'How the workers\' shares are computed' -r -f -a "dynamic\t'From the workers\' reports'
static\t'From the workers\' initial weights'
explicit\t'Workers get exactly the slots that they request'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l uri-file -d 'File for the EJFAT_URI, readable by its owner only (default: standard output)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l forever -d 'No end (udplbd refuses this)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l ipv4 -d 'IPv4 only'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l ipv6 -d 'IPv6 only'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reserve" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from status" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from overview" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l for -d 'Lifetime from now, like 2h (default of `reserve`: set by the control plane; a year with skyhaul and udplbd)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l forever -d 'No end (udplbd refuses this)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from extend" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from free" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l senders -d 'Remove all senders'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l workers -d 'Remove all workers; they must register again'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l ticks -d 'Reset ticks and calendars, for senders that restart their counters'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from reset" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -f -a "add" -d 'Allow these senders'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -f -a "remove" -d 'Remove these senders'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from senders" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -f -a "remove" -d 'Remove a worker: it still gets the rest of its events, but no new ones'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from workers" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -f -a "create" -d 'Create a token, and print the EJFAT_URI with it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -f -a "list" -d 'List the tokens derived from this one, or from the one with this number'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -f -a "show" -d 'Show the permissions of this token, or of the one with this number'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -f -a "revoke" -d 'Revoke a token and all tokens derived from it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from tokens" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l from -d 'EJFAT_URI of the load balancer that is to send, readable in lists of processes: prefer --from-file' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l from-file -d 'File with that URI' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l weight -d 'First share relative to its other workers\'' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l min-factor -d 'At least this part of an even share; 0: no bound' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l max-factor -d 'At most this many even shares; 0: no bound' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l ipv6 -d 'It sends to this one\'s IPv6 address'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chain" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from unchain" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from chains" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l balancer -d 'EJFAT_URI of the control plane or of a reservation (default: from the environment, where other users cannot see its token)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l balancer-file -d 'File with that URI, as `reserve --uri-file` writes it' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l token-file -d 'File with the token, instead of the one in the URI: the operator\'s, of `balance --token-file`' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l certificate -d 'Trust the control plane\'s certificate if it is in this PEM file or signed by one in it (default: the system\'s authorities)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l timeout -d 'Timeout of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l any-certificate -d 'Accept any certificate of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l json -d 'Print the answer as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from version" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "reserve" -d 'Reserve a load balancer, and print its EJFAT_URI'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show a reservation: its workers and their shares, its senders and counters'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "overview" -d 'Show all reservations that the token can see'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "extend" -d 'Change when a reservation ends'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "free" -d 'End a reservation'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "reset" -d 'Reset the senders, the workers or the tick sequence'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "senders" -d 'Add or remove senders'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "workers" -d 'Remove a worker'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "tokens" -d 'Create, list and revoke tokens'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "chain" -d 'Accept a part of another load balancer\'s events'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "unchain" -d 'End a chain'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "chains" -d 'Show the load balancers that feed this one, and those that feed them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "version" -d 'Show the version of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand balancer; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -f -a "serve" -d 'Expose memory of this host, which others write and read'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -f -a "write" -d 'Write to memory of another host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -f -a "send" -d 'Send messages to another host, which has buffers for them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -f -a "read" -d 'Read from memory of another host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and not __fish_seen_subcommand_from serve write send read help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l listen -d 'Address to listen on, like rdma+udp://10.0.0.1:7000 or rdma+tcp://10.0.0.1:7000; port 0 is any' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l region -d 'Memory to expose, NAME:SIZE:RIGHTS, like vis:64MiB:read,write (rights: read, write, invalidate); may be repeated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l messages -d 'Take the messages of `rdma send`: an empty directory, for a file each, or a file for all complete ones, one after the other' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l longest -d 'Longest message that is taken with --messages or --verify, at most 16 MiB: shorter ones leave room for more at a time' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l duration -d 'Stop after this long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l connections -d 'Accept this many connections, and stop when they have ended' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l tier -d 'Who places what peers write: this process (stage) or the kernel (bpf; UDP, needs CAP_BPF)' -r -f -a "auto\t'The kernel if it can, else this process, and the report says why'
stage\t'This process, from trains of datagrams'
bpf\t'A program in the kernel. If it cannot be loaded, the command fails and says what is missing'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l faults -d 'Inject faults into arriving datagrams (UDP), like loss=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l packet -d 'Longest datagram in bytes of UDP payload (default: what the path carries, at most 8972), or longest frame over TCP (default: a segment of the path)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l crc -d 'Whether each datagram, or frame over TCP, carries a CRC-32C of all its bytes, and damaged ones are refused: both ends do as soon as one asks for it (default: over TCP)' -r -f -a "on\t''
off\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l verify -d 'Compare memory with the patterns of `rdma write --pattern` and `rdma send --pattern`, and exit 1 if a byte differs'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from serve" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l input -d 'The bytes of this file, once; Writes go from the region\'s start on' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l message -d 'Bytes of a message' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l rate -d 'Rate of datagram payload, like 1Gbps, or `max`; a pattern without --messages needs one' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l messages -d 'Stop after this many messages' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l duration -d 'Stop after this long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l deadline -d 'Time for the peer to answer: to accept the connection, and to confirm its end' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l faults -d 'Inject faults into the segments that are sent (UDP), like loss=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l packet -d 'Longest datagram in bytes of UDP payload (default: what the path carries, at most 8972), or longest frame over TCP (default: a segment of the path)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l crc -d 'Whether each datagram, or frame over TCP, carries a CRC-32C of all its bytes, and damaged ones are refused: both ends do as soon as one asks for it (default: over TCP)' -r -f -a "on\t''
off\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l pattern -d 'Messages that verify themselves; Writes go through the region again and again'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l imm -d 'Send the number of each message as its immediate data; the peer then knows how long a message is even if its last datagram is lost'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from write" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l input -d 'The bytes of this file, once; Writes go from the region\'s start on' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l message -d 'Bytes of a message' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l rate -d 'Rate of datagram payload, like 1Gbps, or `max`; a pattern without --messages needs one' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l messages -d 'Stop after this many messages' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l duration -d 'Stop after this long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l deadline -d 'Time for the peer to answer: to accept the connection, and to confirm its end' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l faults -d 'Inject faults into the segments that are sent (UDP), like loss=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l packet -d 'Longest datagram in bytes of UDP payload (default: what the path carries, at most 8972), or longest frame over TCP (default: a segment of the path)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l crc -d 'Whether each datagram, or frame over TCP, carries a CRC-32C of all its bytes, and damaged ones are refused: both ends do as soon as one asks for it (default: over TCP)' -r -f -a "on\t''
off\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l pattern -d 'Messages that verify themselves; Writes go through the region again and again'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l solicited -d 'Mark each message as solicited: it asks for the peer\'s program to be woken'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l invalidate -d 'End the region with the last message (Send with Invalidate): the server takes no more Writes, Reads and connections for it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from send" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l range -d 'Range of the region, FIRST..BEHIND, like 0..1MiB (default: all of it)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l message -d 'Bytes of a Read, at most 16 MiB' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l outstanding -d 'Reads at a time, at most 256, of at most 256 MiB together' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l deadline -d 'Time for each Read, and to connect (at most 5 s); what is missing is asked for again until then (UDP)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -s o -l output -d 'File to write to, or - for standard output; zeros stand for what did not arrive (default: nothing is kept)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l faults -d 'Inject faults into arriving datagrams (UDP), like loss=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l packet -d 'Longest datagram in bytes of UDP payload (default: what the path carries, at most 8972), or longest frame over TCP (default: a segment of the path)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l crc -d 'Whether each datagram, or frame over TCP, carries a CRC-32C of all its bytes, and damaged ones are refused: both ends do as soon as one asks for it (default: over TCP)' -r -f -a "on\t''
off\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from read" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Expose memory of this host, which others write and read'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from help" -f -a "write" -d 'Write to memory of another host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from help" -f -a "send" -d 'Send messages to another host, which has buffers for them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from help" -f -a "read" -d 'Read from memory of another host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand rdma; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l token-file -d 'File with the token of the server. With URLs, a bearer token, if the server requires one' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l ca -d 'File or directory with more certificate authorities for URLs, besides the system\'s' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l scitag -d 'Whose traffic it is, with URLs (scitags.org): 64 times the number of the experiment, plus that of the activity. Servers that mark their connections are given it' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l mode -d 'Which server is asked [default: the destination pulls, or if it cannot, the source pushes]' -r -f -a "pull\t'The destination fetches'
push\t'The source sends'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l source-token-file -d 'File with the bearer token of the source, if it is not that of --token-file' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l port -d 'Port of the server (default: 14301); a URL has its own' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l exists -d 'What to do if the destination file exists and differs. Files of equal size and time are taken as equal, unless the source changed after it was copied: then both are read' -r -f -a "fail\t'Skip this file and fail'
skip\t'Keep it'
replace\t'Replace it once the new one is complete'
resume\t'Append what it lacks, if it is shorter; keep one of equal size (uploads by etransfer)'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l flows -l streams -d 'Number of connections; of an upload to a URL, files sent at a time; with `etd://`, always 1' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l window -d 'Socket buffers of each connection (default: the system\'s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l cc -d 'Congestion control, such as bbr (default: the system\'s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l limit -d 'Maximum total rate of all connections' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l range -d 'Size of a range, the unit of checksum, journal and retransmission [default: 4MiB]' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l depth -d 'Disk requests in flight [default: 8]' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l disk-engine -d 'System calls for disks [default: auto]' -r -f -a "auto\t'io_uring if it is permitted, otherwise pwrite'
uring\t'io_uring'
plain\t'pwrite'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l via -d 'Submit the copy to an FTS server, which has the storage at both ends carry it out: `URL... URL`. Prints the number of the job' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l job -d 'Show a job that was submitted before; with --wait, follow it' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l via-token-file -d 'File with the bearer token for the FTS server, if it is not that of --token-file, which storage gets' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l checksum -d 'Checksum that FTS compares, or that of the one file with its value, such as ADLER32:03da0195 [default: ADLER32]' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l checksum-mode -d 'Ends whose checksum FTS compares [default: both]' -r -f -a "both\t'Source with destination'
source\t'Source with the value of --checksum'
target\t'Destination with the value of --checksum'
none\t'Sizes only'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l retry -d 'Times that FTS tries a file again; 0 for none [default: as the server is configured]' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l priority -d 'Priority among jobs of the same users, 1 to 5; 5 begins first [default: as the server is configured]' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l activity -d 'Activity, to which FTS gives a share of the transfers of an experiment [default: default]' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l plain-token -d 'Send the token of a URL over the network without TLS'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l third-party -d 'Have one of two servers copy to the other (WLCG HTTP-TPC): `URL URL`. The data do not pass through this host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l encrypt -d 'Encrypt the contents of files too (TLS 1.3). Without it, only requests, names and digests are encrypted. With URLs, the scheme decides'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l plan -d 'First measure disks and path for a few seconds and predict the rate; compare at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l dry-run -d 'Predict as with --plan, without copying. With URLs, count files and bytes; with --via, print the job without submitting it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l verify -d 'Compare the digests of the files at both ends, without copying. Exit status 1 if one is missing or differs'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l buffered -d 'Through the page cache at both ends'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l wait -d 'Follow the job to its end. Ctrl-C stops following; the job continues at the server'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l cancel -d 'Cancel this job'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -a "serve" -d 'Serve directories to clients that hold the token: they can copy into and out of them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and not __fish_seen_subcommand_from serve help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l root -d 'Directory to serve; may be repeated. A client names paths below it, absolute or from the first' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l token-file -d 'File with the token; created if it does not exist. The server\'s key is kept beside it, in FILE.key' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l listen -d 'Address to listen on (default: port 14301 of all addresses, IPv6 and IPv4)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l disk-engine -d 'System calls for disks' -r -f -a "auto\t'io_uring if it is permitted, otherwise pwrite'
uring\t'io_uring'
plain\t'pwrite'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l disk-faults -d 'Inject faults into the disk written to: `slow=200`, `latency=20ms`, `enospc=1GiB`, `eio=1GiB`, `esync=2`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l read-only -d 'Read-only: refuse uploads'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from serve" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Serve directories to clients that hold the token: they can copy into and out of them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand copy; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -s i -l interface -d 'Interface that carries the data (default: the fastest)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l disk -d 'Directory for the data; may be repeated (default: every file system on a disk)' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l only -d 'Run only these checks: groups (A, B, C, D) or single checks (C14), separated by commas' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l rate -d 'Total rate of all flows (default: the link\'s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l rtt -d 'Round-trip time to the other end (default: 10ms)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l role -d 'Role of the host: send, receive, both, record, measure' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l flows -d 'Number of concurrent flows (default: 1)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l mtu -d 'MTU that the path carries (default: 9000 from 10 Gb/s on)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l peer -d 'Also audit this host and compare; it runs `skyhaul probe serve`. Add :PORT if it is not the default. Only with --token-file' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l token-file -d 'File with the token of that host. Only with --peer' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l watch -d 'Run the command in the rest of the line, and report which counters increased meanwhile' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l save -d 'Save the settings that were read to a file' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l load -d 'Audit settings from a saved file instead of this host\'s' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l diff -d 'Compare two saved files' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l journal -d 'File in which --apply records its changes' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l all -d 'Also show checks that pass or do not apply'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l apply -d 'Fix settings whose checks fail or warn, and record the changes for --undo: sysctls, /sys, queueing disciplines, and what the card accepts without a link interruption; rings only with --only B5. Queues, MTU and mounts are only advised'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l undo -d 'Revert the changes of --apply'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l dry-run -d 'Show the changes that --apply or --undo would make, without making them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l yes -d 'Apply without confirmation. Only with --apply'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l json -d 'Print one JSON report on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand host" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and not __fish_seen_subcommand_from run help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and not __fish_seen_subcommand_from run help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and not __fish_seen_subcommand_from run help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and not __fish_seen_subcommand_from run help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and not __fish_seen_subcommand_from run help" -f -a "run" -d 'Run commands at the ends of an emulated path'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and not __fish_seen_subcommand_from run help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l far -d 'Shell command to run in the far end; it starts first and is stopped with the lab' -r -f -a "(__fish_complete_command)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l mtu -d 'Maximum size of an IP packet, in bytes' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l queue -d 'Kernel queue of the near end\'s interface: tbf=RATE/BURST/LIMIT or pfifo=PACKETS' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l wait -d 'Longest time to wait until the far command listens' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l log -d 'Write what happened to each packet to this file, as JSON lines' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l memory -d 'Memory for queued packets' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l spin -d 'Busy-wait for the last TIME before a packet is due: more precise, at the cost of a CPU' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l grain -d 'On a busy path, send packets that are due within TIME together, which takes much less CPU time; 0: one at a time' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l tolerance -d 'Maximum lateness of a packet; the run fails if more than 1 % of packets are later' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run commands at the ends of an emulated path'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand lab; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l format -d 'Format (`auto`: VDIF)' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l candidates -d 'Candidates to compare (default: all; ring only with --no-gso). receive: bare, skyhaul, recvmmsg, recv, ring; send: bare, skyhaul, sendmmsg, sendto; record: fio, skyhaul, forward; balance: bare, skyhaul, single; lab: bare, skyhaul; rdma: udp, tcp, scatter, bare, ring, place, drop, write-stage, write-bpf and others, as its table names them' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l sizes -d 'Datagram sizes, rounded down to the next that the format allows (for record, default 8040)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l time -d 'Length of each run' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l rounds -d 'Number of rounds; the candidates take turns in each' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l rate -d 'Fixed rate, or max: closed loop, as fast as possible without loss (default: max; for rdma 4Gbps)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l directory -d 'Directory on the disk to measure. Only for `bench record`' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l bytes -d 'Size of each recording. Only for `bench record`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l address -d 'Address to receive on' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l netns -d 'Send from and receive in these network namespaces, which you have connected, like sky-a,sky-b (needs root). Only for benchmarks of one path (`bench receive` and others) or the experiments of SDP memo 046 or `bench rdma`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l cpus -d 'Processors of the sending and the receiving thread' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l memory -d 'Memory that packets are placed into' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l experiments -d 'Experiments to run (default: all but limited)' -r -f -a "link\t'Bare UDP and TCP loops: the limit of the link (memo, table 1)'
light\t'Senders without receivers: default, MTU, buffers, both (table 2)'
receiver\t'Senders with receivers, and the heaps lost (tables 3 and 4)'
pairs\t'Pairs at rising rates, and TCP (figures 2, 3 and 6)'
scaling\t'One to N senders at several rates, and the shortfall from N times one (figures 4 and 5)'
limited\t'Receivers with a share of a CPU, skyhaul\'s and others: CPU time, and the highest rate without loss'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l heap-size -d 'Payload of a heap' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l pairs -d 'Number of sender and receiver pairs (experiments pairs and scaling)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l rates -d 'Rates of each sender, or for events of all senders together, like 1Gbps,2Gbps (default: eight steps up to the maximum of one sender; for events 500Mbps to 4Gbps). With `limited`, CPU time is measured at the first (default: 4Gbps)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l interfaces -d 'Addresses to receive on, one for each interface, assigned to the pairs in turn (default: --address)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l receiver-cpu -d 'CPU share of each receiver (default: 50%). Only for the experiment `limited`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l packet -d 'Packet sizes with SPEAD header (default: 1472,8972). Only for the experiment `limited`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l against -d 'Command line of another receiver, without quotes; {address}, {port}, {packet}, {heap} and {buffer} are replaced. May be repeated. Only for the experiment `limited`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l report -d 'Directory for tables, plots and results as JSON (default: spead-bench, for events ejfat-bench, for peers peers-bench); for rdma the HTML file to write (default: none)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l mtus -d 'Largest IP packets' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l events -d 'Bytes of an event' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l senders -d 'Numbers of senders, a thread each' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l workers -d 'Numbers of workers, a thread each' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l balancer-threads -d 'Numbers of threads of the balancer' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l only -d 'Rows of the table, or experiments of rdma (default: all). Only for `bench peers` or `bench rdma`' -r -f -a "receive-8040\t''
receive-1472\t''
heaps-64k-8g\t''
heaps-64k-16g\t''
heaps-1m-8972\t''
heaps-1m-1472\t''
heaps-4k\t''
heaps-4k-spead2\t''
send-1472\t''
send-8040\t''
events-3g\t''
events-10g\t''
tcp-zerocopy\t''
messages\t''
receivers\t''
wakes\t''
loss\t''
latency\t''
lanes\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l spead2-recv -d 'spead2_recv of spead2 4 (default: from PATH)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l spead2-send -d 'spead2_send of spead2 4 (default: from PATH)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l iperf3 -d 'iperf3 (default: from PATH)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l packet-blastee -d 'packetBlasteeFastDirect of JLab\'s esnet3 (default: from PATH)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l program -d 'skyhaul, for example of another build (default: this program). The bare loops are always of this program' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l messages -d 'Bytes of a message' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l datagram -d 'Longest datagram, bytes of UDP payload' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l train -d 'Datagrams that the sender of `receivers` and `lanes` hands to the kernel in one train (UDP_SEGMENT); 1: each by itself' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l lanes -d 'LOFAR lanes to try, at most' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l losses -d 'Shares of datagrams to withhold' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l search -d 'Search for the highest rate without loss at which the sender never waits'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l no-gso -d 'Hand packets to the kernel one by one instead of in trains'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l veth -d 'Measure between two networks of its own, over a pair of interfaces (veth) with an MTU of 9000 (needs root). Only for `bench rdma`'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l token-file -d 'File with the token of the server' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l sizes -d 'Datagram sizes in bytes: one, several like 64,1472, or FROM..TO in 10 steps (FROM..TO:N in N); default 1472, or less where it would be fragmented; 64 with STAMP' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l spacing -d 'Times between the starts of two packets: one, several like 1us,2us, or FROM..TO in 40 steps (FROM..TO:N in N); down to picoseconds, 0us is as fast as possible; with STAMP, default 10ms' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l rates -d 'Rates of payload instead of spacings: one or several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l report -d 'Write a page (index.html) with plots, the plots as SVG, and report.json into this directory' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l trace -d 'Write the times of up to 65536 packets of each point, evenly chosen, into this file: lines of point,flow,number,sent_ns,under_way_ns' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l flows -d 'Number of concurrent flows, each with its own ports and threads; with TCP also a list, like 1,2,4' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l time -d 'Length of each point (default: 5s for one, 50ms for each of several; with TCP 10s and 5s, against iperf3 10s); of a diagnosis with UDP, of the first one (default: 1s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l packets -d 'Packets of each point and flow (default: as many as fit in its time)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l mode -d 'How packets are sent' -r -f -a "single\t'One by one; the sending thread waits on the clock for each'
trains\t'In trains that the kernel segments (UDP_SEGMENT); the sending thread waits for each train'
kernel\t'One by one, spaced by the kernel where the interface has the fq discipline'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l train -d 'Packets of a train (--mode trains)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l settle -d 'End a point after this long without an arrival, in addition to a round-trip time' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l windows -d 'Socket buffers of both ends: one, several like 1MiB,64MiB, or FROM..TO, doubled (default: the kernel tunes them)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l cc -d 'Congestion control: one or several (default: the system\'s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l write -d 'Size of each write and read (default: 1MiB, with iperf3 128KiB; for iperf3\'s datagrams, the largest that the path carries)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l bytes -d 'End after this many bytes of all flows together' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l omit -d 'Exclude this time at the start (slow start) from the result' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l pacing -d 'Pace each flow in the kernel at this rate' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l stagger -d 'Start each flow this long after the previous one' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l segment -d 'Maximum segment size' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l cores -d 'Pairs of CPUs for the flows in turn, here and there, like 2:3,4:5' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l iperf3 -d 'Measure with an iperf3 server, on port 5201 by default; needs no token' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l blocks -d 'End after this many blocks of all flows together' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l burst -d 'Maximum burst of datagrams' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l tos -d 'Type-of-service byte: DSCP times four' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l title -d 'Line of text to include in the report' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l stamp -d 'Measure delay and loss with a reflector of STAMP (RFC 8762) or TWAMP-Light, on port 862 by default; needs no token' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l udpmon -d 'Measure with a responder of udpmon, on port 14233 by default; needs no token. With --latency, requests and responses of each size' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l udp -d 'Measure with UDP (the default)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l mtu -d 'Find the largest datagram that passes without fragmentation'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l latency -d 'Measure round-trip times for each size, with datagrams that the server echoes'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l bursts -d 'Send bursts of 1, 2, 4, 8 … back-to-back packets, and report which lose packets'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l search -d 'Search for the highest rate without loss'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l limit -d 'Overload the path and find its limit: rate and bucket of a policer, or rate and depth of a queue'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l diagnose -d 'Measure what loss, reordering and delay depend on, and report the cause, the evidence and the next command to run; the first of --sizes and --spacing (or --rates) is the highest load to try'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l reverse -d 'Send data from the server to this host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l both -d 'Send data in both directions concurrently'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l join -d 'Let the kernel coalesce packets that arrive together: less CPU time, but no timestamp per packet (default with trains)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l tcp -d 'Measure with TCP'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l zerocopy -d 'Send without copying (sendfile)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l discard -d 'Receive without copying (MSG_TRUNC)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l no-delay -d 'Send small writes immediately (TCP_NODELAY)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l wide -d 'Use 64-bit sequence numbers in datagrams'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l server-output -d 'Also get the server\'s report'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -a "serve" -d 'Serve measurements to clients that hold the token'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -a "send" -d 'Send to a receiver without a control connection (`probe receive`)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -a "receive" -d 'Receive from a sender without a control connection (`probe send`)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -a "monitor" -d 'Run tests on a schedule, with results as JSON lines and Prometheus metrics'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -a "campaign" -d 'Run a set of experiments on this machine and compare each with theory'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and not __fish_seen_subcommand_from serve send receive monitor campaign help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l listen -d 'Address to listen on; [::] includes IPv4' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l port -d 'TCP port; tests open UDP ports as needed' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l token-file -d 'File with the token that both hosts need; created if it does not exist. The server\'s key is kept beside it, in FILE.key' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l tests -d 'Maximum concurrent tests; others wait in a queue' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l queue -d 'Maximum clients in the queue' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l per-peer -d 'Maximum tests per client address, running and waiting' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l most -d 'Maximum rate of a test (default: no limit)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l longest -d 'Maximum length of a test' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l iperf3 -d 'Also serve iperf3 clients, without a token: up to 16 concurrently, or --tests if that is more' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l stamp -d 'Also reflect STAMP (RFC 8762) and TWAMP-Light packets, without a token; ports below 1024 need root' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l udpmon -d 'Also respond to udpmon, without a token: up to 8 clients concurrently, or --tests if that is more' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l slow-reader -d 'Read TCP as a slow application does, to try a diagnosis: pause for TIME in each PERIOD (50ms@200ms), or read at most at RATE (20Mbps)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from serve" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l size -d 'Datagram size in bytes (default: 1472, or less where it would be fragmented, as with IPv6)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l spacing -d 'Time between the starts of two packets, with picosecond resolution; 0us is as fast as possible' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l time -d 'How long to send' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l mode -d 'How packets are sent' -r -f -a "single\t'One by one; the sending thread waits on the clock for each'
trains\t'In trains that the kernel segments (UDP_SEGMENT); the sending thread waits for each train'
kernel\t'One by one, spaced by the kernel where the interface has the fq discipline'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l train -d 'Packets of a train (--mode trains)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from send" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -l idle -d 'Stop after this long without a packet, once the first has arrived' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -l time -d 'Longest time to wait and receive (default: until Ctrl-C)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -l join -d 'Let the kernel coalesce packets that arrive together: less CPU time, but no timestamp per packet'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from receive" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l plan -d 'File of tests (TOML)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l token-file -d 'File with the token of all servers' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l every -d 'Time between the starts of two tests' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l jitter -d 'Delay each test by a random time up to this, to avoid synchronised tests (default: a tenth of --every)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l time -d 'Length of a test' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l flows -d 'Flows at once' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l size -d 'Bytes of a datagram (udp; default: 1472, or less where that would be cut into fragments, as with IPv6)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l rate -d 'Rate of each flow\'s payload (udp)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l window -d 'Socket buffers of both ends (tcp; default: the kernel tunes them)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l cc -d 'Congestion control (tcp; default: the system\'s)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l for -d 'End after this time (default: at Ctrl-C)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l seed -d 'Seed of the random delays within --jitter (default: random)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l lines -d 'File for results as JSON lines; rotated files are FILE.1, FILE.2, …' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l rotate -d 'Size at which this file is rotated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l keep -d 'Number of rotated files to keep' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l keep-for -d 'Also remove rotated files older than this (default: no limit)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l metrics -d 'File for metrics, replaced after each test, for node_exporter\'s textfile collector' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l http -d 'Serve metrics at http://IP:PORT/metrics' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l reverse -d 'Send data from the server to this host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l both -d 'Send data in both directions concurrently'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from monitor" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -l only -d 'Run only these, like policing,window-limit' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -l report -d 'Write index.html, report.json, and JSON and plot of each experiment into this directory' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -l quick -d 'Fewer and shorter points'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -l resume -d 'Keep the results that are already in DIR, and run the other experiments. Only with --report'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from campaign" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Serve measurements to clients that hold the token'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "send" -d 'Send to a receiver without a control connection (`probe receive`)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "receive" -d 'Receive from a sender without a control connection (`probe send`)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "monitor" -d 'Run tests on a schedule, with results as JSON lines and Prometheus metrics'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "campaign" -d 'Run a set of experiments on this machine and compare each with theory'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l reserve -d 'Free space to leave on each disk' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l sizes -d 'Sizes of a file: 1GiB,4GiB, or 5GiB..50GiB, which doubles' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l blocks -d 'Sizes of a request' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l depths -d 'Numbers of requests in flight for each file' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l streams -d 'Numbers of concurrent files on each disk, each with its own thread' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l against -d 'Compare with a network of this rate, in both directions, and report which of the two is the limit' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l rounds -d 'Number of repetitions' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l disk-engine -d 'System calls' -r -f -a "auto\t'io_uring if it is permitted, otherwise pwrite'
uring\t'io_uring'
plain\t'pwrite'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l disk-faults -d 'Inject faults into a disk: `PATH:slow=200`, `PATH:latency=20ms`, `PATH:enospc=1GiB`, `PATH:eio=1GiB`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l write -d 'Only write'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l read -d 'Only read'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l direct -d 'Past the page cache (the default unless another mode is given)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l buffered -d 'Through the page cache, which is emptied of a file before it is read'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l cached -d 'Read from a warm page cache'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l fio-json -d 'Print the results under the names fio gives them in its JSON'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand disk" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l socket -d 'Unix socket for the control plane' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l listen -d 'Address on which packets arrive' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l threads -d 'Threads for each address; 0: one for each CPU' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l cpus -d 'CPUs for these threads, one each' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l socket-buffer -d 'Receive buffer of each thread' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l fast-path -d 'Whether a program in the kernel (XDP) sends on what it can' -r -f -a "auto\t'If the driver of the interface supports it'
xdp\t'In the driver, or in the generic hook, which is slower; fail if neither works'
off\t'Forward through sockets only (no XDP)'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand data-plane" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand packet-path" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand packet-path" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand packet-path" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand packet-path" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and not __fish_seen_subcommand_from diff help" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and not __fish_seen_subcommand_from diff help" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and not __fish_seen_subcommand_from diff help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and not __fish_seen_subcommand_from diff help" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and not __fish_seen_subcommand_from diff help" -f -a "diff" -d 'Compare two reports of the same kind, figure by figure'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and not __fish_seen_subcommand_from diff help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -l tolerance -d 'Relative difference that is tolerated' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -l fail-on -d 'When to exit with status 1' -r -f -a "never\t'Nothing'
worse\t'A figure is worse, or missing from B'
any\t'A figure differs, or only one report has it'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -l page -d 'Write the comparison to this file as a page (HTML)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -l all -d 'Show all figures, not only those that differ'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -l json -d 'Print the comparison as one JSON object on standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from diff" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from help" -f -a "diff" -d 'Compare two reports of the same kind, figure by figure'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand report; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -l config -d 'Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -l show-config -d 'Print the settings in force and where each comes from, then exit'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "demo" -d 'Run the whole chain on this machine, without setup'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "send" -d 'Send a file, a recording, a pattern, noise or a sky as packets'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "receive" -d 'Receive streams and write them to a file or standard output, or discard them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "schedule" -d 'Check the schedule of an observation: what is recorded when, space, rate, conflicts'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "record" -d 'Record streams onto disks, and forward them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "serve" -d 'Run a station as a service: recordings of several inputs, an HTTP API'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "status" -d 'Show what a station records, and its disks'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "top" -d 'Watch a station in the terminal: rates, losses, disks, alarms, events'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "station" -d 'Start and stop recordings of a station'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "scans" -d 'List the scans on a station\'s disks: state, disks, times, losses, copies to other hosts'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "token" -d 'Sign tokens for the files that a station serves, and show what a token allows'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "transfers" -d 'Copy scans of a station to other hosts: queue, list, cancel, retry'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "fleet" -d 'Show and direct a fleet of stations: schedules, scans, alarms'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "ls" -d 'List recordings'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "check" -d 'Check that a recording holds everything that was acknowledged'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "cat" -d 'Write a recording to standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "mount" -d 'Mount recordings: each scan one file'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "plot" -d 'Plot samples: spectrum, autocorrelation, levels, losses'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "export" -d 'Write samples as NumPy, raw numbers, HDF5 or Zarr'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "inspect" -d 'Show packets of a file, a capture or a live port, field by field'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "balance" -d 'Balance packets from many senders over many workers; each event goes to one worker'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "balancer" -d 'Reserve, manage and release a load balancer of skyhaul or ESnet'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "rdma" -d 'Expose memory of this host over RDMA on UDP or TCP, and write to or read from that of another'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "copy" -d 'Copy files, directories and recordings to or from another host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "host" -d 'Audit this host\'s settings for high-rate data, and fix them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "lab" -d 'Emulate a path between two hosts on this machine: rate, delay, loss, reordering, policers'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "bench" -d 'Measure this machine\'s receive, send and record paths against bare loops'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "probe" -d 'Measure the rate, loss, reordering, jitter and delay of a path, and find where packets are lost'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "disk" -d 'Measure how fast disks write and read, and whether they or the network limit a transfer'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "data-plane" -d 'Forward packets for a balancer whose control plane runs in another process'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "packet-path" -d 'Pass fixed packets through the receive path, for a profiler to count instructions'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "report" -d 'Compare reports'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "generate" -d 'Write man pages or shell completions'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive schedule record serve status top station scans token transfers fleet ls check cat mount plot export inspect balance balancer rdma copy host lab bench probe disk data-plane packet-path report generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "check" -d 'Show what a station will record when, and what prevents it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "load" -d 'Let a running station follow a schedule'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "list" -d 'Show the schedules of a running station, or each scan of one'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "remove" -d 'Remove a schedule from a running station; what is recorded of it continues to its end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from station" -f -a "start" -d 'Start a recording; returns when it is ready for the first packet'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from station" -f -a "stop" -d 'Stop a recording; returns when everything is on the disks'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "create" -d 'Sign a token with the station\'s key, and print it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "show" -d 'Show what a token says, and whether the station would accept it now'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from transfers" -f -a "add" -d 'Copy scans to another host; returns when the path was tried and the queue is kept'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from transfers" -f -a "cancel" -d 'End a copy; returns when it has ended'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from transfers" -f -a "retry" -d 'Try a copy again that failed, was cancelled, or waits for its next attempt'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from transfers" -f -a "rm" -d 'Forget a copy that has ended; what is at its destination stays there'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "status" -d 'Show stations, recorders, desired and closed scans, replicas and alarms'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "load" -d 'Check schedules, and have stations follow them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "start" -d 'Desire a scan at stations, and wait for their answers'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "stop" -d 'End a desired scan at stations, and wait for their answers'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "run" -d 'Load the schedule of an experiment, and follow it until each station has closed its scans'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "reserve" -d 'Reserve a load balancer, and print its EJFAT_URI'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "status" -d 'Show a reservation: its workers and their shares, its senders and counters'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "overview" -d 'Show all reservations that the token can see'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "extend" -d 'Change when a reservation ends'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "free" -d 'End a reservation'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "reset" -d 'Reset the senders, the workers or the tick sequence'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "senders" -d 'Add or remove senders'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "workers" -d 'Remove a worker'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "tokens" -d 'Create, list and revoke tokens'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "chain" -d 'Accept a part of another load balancer\'s events'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "unchain" -d 'End a chain'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "chains" -d 'Show the load balancers that feed this one, and those that feed them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from balancer" -f -a "version" -d 'Show the version of the control plane'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from rdma" -f -a "serve" -d 'Expose memory of this host, which others write and read'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from rdma" -f -a "write" -d 'Write to memory of another host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from rdma" -f -a "send" -d 'Send messages to another host, which has buffers for them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from rdma" -f -a "read" -d 'Read from memory of another host'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from copy" -f -a "serve" -d 'Serve directories to clients that hold the token: they can copy into and out of them'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from lab" -f -a "run" -d 'Run commands at the ends of an emulated path'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "serve" -d 'Serve measurements to clients that hold the token'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "send" -d 'Send to a receiver without a control connection (`probe receive`)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "receive" -d 'Receive from a sender without a control connection (`probe send`)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "monitor" -d 'Run tests on a schedule, with results as JSON lines and Prometheus metrics'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "campaign" -d 'Run a set of experiments on this machine and compare each with theory'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and __fish_seen_subcommand_from report" -f -a "diff" -d 'Compare two reports of the same kind, figure by figure'
