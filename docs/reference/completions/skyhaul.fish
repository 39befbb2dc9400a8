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

complete -c skyhaul -n "__fish_skyhaul_needs_command" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_needs_command" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "demo" -d 'Watch the main job on this machine, with nothing to set up'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "send" -d 'Send a file, a recording, a pattern or noise as packets'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "receive" -d 'Receive streams to nowhere, a file or standard output'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "record" -d 'Record streams onto disks, and send them on'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "ls" -d 'List recordings'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "check" -d 'Prove that a recording is what was acknowledged'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "cat" -d 'Write a recording to standard output'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "inspect" -d 'Show packets of a file, a capture or a live port, field by field'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "bench" -d 'Measure this machine\'s receive, send and record paths beside bare loops'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "generate" -d 'Write man pages or shell completions'
complete -c skyhaul -n "__fish_skyhaul_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l rate -d 'Rate of the stream (default: 4Gbps, or as much of it as this host takes)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l duration -d 'How long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l disks -d 'Disks to stripe over' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l faults -d 'What the network does to the stream' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l directory -d 'Where to put the recording and the report (default: a folder `demo` here)' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l keep -d 'Keep the recording'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -s h -l help -d 'Print help'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand demo" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l to -d 'Where to; may be given several times, each then gets all of it from senders of its own' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l format -d 'Format of the packets: vdif, mark5b, fila10g, lofar, spead, or auto (from the file)' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l input -d 'Send the frames of this file' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l scan -d 'Send this recording (with --disk)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l disk -d 'A disk of the recording' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l stream -d 'Which stream of the recording, where there are several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l loop -d 'Send the input this many times, with the time running on' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l packets -d 'Stop after this many packets' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l duration -d 'Stop after this long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l rate -d 'Rate of datagram payload of all senders together, or one for each destination, like 1Gbps,2Gbps; `max`: as fast as this host can, which is the default where what is sent ends or goes by TCP. A pattern or noise over UDP without --packets or --heaps needs a rate. SPEAD over UDP: `auto` follows what the receiver says (`receive --feedback`), `search` finds the highest rate without loss once, and keeps it; both within the bounds of each sender, like auto:50Mbps-8Gbps, and from the rate behind @, like auto:50Mbps-8Gbps@1Gbps' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l faults -d 'Lose, reorder, double or damage packets on purpose, like loss=0.01,reorder=64,duplicate=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l payload -d 'Payload bytes of a synthesised frame' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l threads -d 'Threads of a synthesised stream' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l frame-rate -d 'Frames per second of each thread (default: from the headers, else from the rate)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l sequence -d 'Sequence number in front of each frame' -r -f -a "auto\t'Little-endian for UDP, none for TCP'
little\t'Little-endian, as FILA10G, DBBC3 and jive5ab have it'
big\t'Big-endian'
none\t'None'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l first -d 'First sequence number' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l mode -d 'How packets are handed to the kernel' -r -f -a "auto\t'The best that works here'
gso\t'Trains of packets in one system call (UDP_SEGMENT)'
mmsg\t'Several packets in one system call'
plain\t'One packet in one system call'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l senders -d 'Senders at once to each destination, each from a port of its own' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l cpu -d 'Processors for the sending threads, like 2,3; they take turns' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l heap-size -d 'Payload of a heap' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l heaps -d 'Stop after this many heaps of each sender (default: until --duration or Ctrl-C)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l packet -d 'Bytes of a packet, with its SPEAD header; `mtu`: as the route takes; `heap`: each heap is one packet, for TCP' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l flavour -d 'Bits of value or address of an item pointer, SPEAD-64-N' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l items -d 'Items a heap\'s payload is divided into' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l first-heap -d 'First heap counter' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l heap-step -d 'From one heap\'s counter to the next' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l follow -d 'Go on while the recording is being made'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l fill -d 'Send invalid frames where chunks of the recording are missing or damaged, instead of nothing'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l pattern -d 'Send payloads that verify themselves'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l noise -d 'Send 2-bit Gaussian noise with a tone'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l repeat-pointers -d 'All item pointers in every packet, so that each heap survives the loss of its first one'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l substreams -d 'Send heaps to the destinations in turn, as substreams of one sender, instead of all to each'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l full-packets -d 'Cut heaps as spead2 does, instead of into packets that are as equal as they can be'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l bare -d 'Send no item descriptors and no stop heap'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand send" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s o -l output-file -d 'Write the frames to this file, `-` for standard output (default: nowhere)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l listen -d 'Where to listen; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l pcap -d 'Read packets from a capture file instead' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l format -d 'Format of the packets: auto, vdif, mark5b, fila10g, lofar, spead, ejfat' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l frame-rate -d 'Frames per second of each thread, where the headers do not tell' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l threads -d 'VDIF threads that belong to a stream, like 0-7 or 0,2,4 (default: those that come)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l place -d 'What tells a packet\'s place: its sequence number, or the time in its frame' -r -f -a "auto\t'Sequence number where packets carry one, else time'
sequence\t'Sequence number'
time\t'Time in the frame header'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l keep -d 'What is kept of each packet' -r -f -a "frame\t'The frame with its header, without the network\'s sequence number'
packet\t'The whole packet'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l strip -d 'Drop this many leading bytes of each packet (instead of --keep)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l tier -d 'How UDP is received' -r -f -a "auto\t'The best that this host and the traffic allow'
stage\t'Trains of packets in one system call (UDP_GRO)'
plain\t'The same without trains'
ring\t'A ring shared with the kernel (needs CAP_NET_RAW)'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l receive-threads -d 'Sockets and threads for each UDP address; senders are spread over them' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l cpus -d 'Processors for the receiving threads, like 2,3' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l realtime -d 'Real-time priority of the receiving threads, 1 to 99' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l socket-buffer -d 'Socket buffer to ask for' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l memory -d 'Memory for packets (default: a quarter of the machine\'s, at most 4 GiB)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l chunk -d 'Size of a chunk file and of the blocks in memory (default: 1/256 of the memory, 1 MiB to 256 MiB)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l window -d 'Blocks under construction for each stream: how much reordering is put right' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l max-streams -d 'Most senders followed at a time' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l from -d 'Let in only this sender, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010 or :5000; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l station -d 'Take only streams of this station (VDIF): two letters or a number, as `inspect` shows it; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l flush -d 'How old a slow stream\'s data may grow in memory' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l forward -d 'Send everything on to this address as it arrives; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l faults -d 'Damage what arrives on purpose, like loss=0.01,reorder=64,duplicate=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l start -d 'Let only frames from this data time on through, in UTC: like 2026-11-21T03:00:00Z, like 2026y325d03h00m00s as in VEX, or a UNIX second. A fraction of a second is rounded up' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l stop -d 'Let no frames from this data time on through, and stop' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l duration -d 'Stop this long after the first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l idle -d 'Stop when nothing came for this long, once something came' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l wait -d 'Give up when nothing came for this long from the start' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l start-at -d 'Begin receiving at this wall time, written as for --start; what comes earlier is counted and let go' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l stop-at -d 'Stop at this wall time (UTC)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l bytes -d 'Stop after about this many bytes' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l heap-window -d 'Heaps under construction at a time: how much reordering over heaps is put right' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l largest-heap -d 'Largest heap accepted' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l heap-timeout -d 'A heap ends incomplete this long after its first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l remember -d 'How long finished heaps are known, so that their late and doubled packets are refused; 0: any packet may begin its heap anew' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l stop-items -d 'Stop items that end the stream: `first`, `never`, or how many' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l heaps -d 'Stop after this many heaps' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l start-heap -d 'Ignore heaps with a smaller counter' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l verify -d 'Check that every payload is what `send --pattern` sent'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l split-threads -d 'Make a stream of each VDIF thread of a sender, instead of one of all'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l keep-partial-sets -d 'Keep the frames of a set of threads that was under way when a stream began or ended, instead of beginning and ending with whole sets, as readers of VDIF need it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l by-sender -d 'Senders count their heaps independently: tell heaps apart by sender, too'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l in-order -d 'Packets of a heap must come in order, as spead2 wants it by default'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l incomplete -d 'Write incomplete heaps, too, their gaps filled with zeros (with --output-file)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l end-with-connections -d 'End when the last TCP connection has ended'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l feedback -d 'Tell senders what arrives, for their `--rate auto`'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand receive" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l disk -d 'A disk: a directory, usually a mount point; may be given several times' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l scan -d 'Name of the recording, like exp_st_no0001' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l reserve -d 'Room that is left free on each disk' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l sync -d 'When data count as safe on a disk' -r -f -a "chunk\t'Every chunk by itself'
interval\t'Together, several times a second'
none\t'Whenever the system likes'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l disk-engine -d 'How disks are written' -r -f -a "auto\t'io_uring where it is allowed, else plain calls'
uring\t'io_uring'
plain\t'Plain pwrite calls'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l exists -d 'What to do when the scan exists already' -r -f -a "suffix\t'Append a letter to the new one\'s name, a to z, then A to Z'
error\t'Refuse'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l disk-faults -d 'Make a disk misbehave on purpose: `PATH:slow=200`, `PATH:enospc=1GiB`, `PATH:eio=1GiB`, `PATH:eagain=3`' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l listen -d 'Where to listen; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l pcap -d 'Read packets from a capture file instead' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l format -d 'Format of the packets: auto, vdif, mark5b, fila10g, lofar, spead, ejfat' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l frame-rate -d 'Frames per second of each thread, where the headers do not tell' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l threads -d 'VDIF threads that belong to a stream, like 0-7 or 0,2,4 (default: those that come)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l place -d 'What tells a packet\'s place: its sequence number, or the time in its frame' -r -f -a "auto\t'Sequence number where packets carry one, else time'
sequence\t'Sequence number'
time\t'Time in the frame header'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l keep -d 'What is kept of each packet' -r -f -a "frame\t'The frame with its header, without the network\'s sequence number'
packet\t'The whole packet'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l strip -d 'Drop this many leading bytes of each packet (instead of --keep)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l tier -d 'How UDP is received' -r -f -a "auto\t'The best that this host and the traffic allow'
stage\t'Trains of packets in one system call (UDP_GRO)'
plain\t'The same without trains'
ring\t'A ring shared with the kernel (needs CAP_NET_RAW)'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l receive-threads -d 'Sockets and threads for each UDP address; senders are spread over them' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l cpus -d 'Processors for the receiving threads, like 2,3' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l realtime -d 'Real-time priority of the receiving threads, 1 to 99' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l socket-buffer -d 'Socket buffer to ask for' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l memory -d 'Memory for packets (default: a quarter of the machine\'s, at most 4 GiB)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l chunk -d 'Size of a chunk file and of the blocks in memory (default: 1/256 of the memory, 1 MiB to 256 MiB)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l window -d 'Blocks under construction for each stream: how much reordering is put right' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l max-streams -d 'Most senders followed at a time' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l from -d 'Let in only this sender, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010 or :5000; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l station -d 'Take only streams of this station (VDIF): two letters or a number, as `inspect` shows it; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l flush -d 'How old a slow stream\'s data may grow in memory' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l forward -d 'Send everything on to this address as it arrives; may be given several times' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l faults -d 'Damage what arrives on purpose, like loss=0.01,reorder=64,duplicate=0.01,seed=7' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l start -d 'Let only frames from this data time on through, in UTC: like 2026-11-21T03:00:00Z, like 2026y325d03h00m00s as in VEX, or a UNIX second. A fraction of a second is rounded up' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l stop -d 'Let no frames from this data time on through, and stop' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l duration -d 'Stop this long after the first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l idle -d 'Stop when nothing came for this long, once something came' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l wait -d 'Give up when nothing came for this long from the start' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l start-at -d 'Begin receiving at this wall time, written as for --start; what comes earlier is counted and let go' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l stop-at -d 'Stop at this wall time (UTC)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l bytes -d 'Stop after about this many bytes' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l heap-window -d 'Heaps under construction at a time: how much reordering over heaps is put right' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l largest-heap -d 'Largest heap accepted' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l heap-timeout -d 'A heap ends incomplete this long after its first packet' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l remember -d 'How long finished heaps are known, so that their late and doubled packets are refused; 0: any packet may begin its heap anew' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l stop-items -d 'Stop items that end the stream: `first`, `never`, or how many' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l heaps -d 'Stop after this many heaps' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l start-heap -d 'Ignore heaps with a smaller counter' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l no-fill -d 'Leave holes as they are instead of filling them with frames marked invalid'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l split-threads -d 'Make a stream of each VDIF thread of a sender, instead of one of all'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l keep-partial-sets -d 'Keep the frames of a set of threads that was under way when a stream began or ended, instead of beginning and ending with whole sets, as readers of VDIF need it'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l by-sender -d 'Senders count their heaps independently: tell heaps apart by sender, too'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l in-order -d 'Packets of a heap must come in order, as spead2 wants it by default'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l incomplete -d 'Write incomplete heaps, too, their gaps filled with zeros (with --output-file)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l end-with-connections -d 'End when the last TCP connection has ended'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l feedback -d 'Tell senders what arrives, for their `--rate auto`'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand record" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l disk -d 'A disk: a directory, usually a mount point; may be given several times' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -s h -l help -d 'Print help'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand ls" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l disk -d 'A disk: a directory, usually a mount point; may be given several times' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l verify -d 'Also check that every payload is what `send --pattern` sent'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l repair -d 'Take chunk files that no index knows into the index, as they are'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -s h -l help -d 'Print help'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand check" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l disk -d 'A disk: a directory, usually a mount point; may be given several times' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l stream -d 'Which stream of it, by number, where there are several' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -s o -l output-file -d 'Write here instead of to standard output' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l follow -d 'Go on while it is being recorded'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l fill -d 'Write invalid frames where chunks are missing or damaged, so that length and time stay right'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l no-check -d 'Write damaged and unproven chunks as they lie (they are named all the same)'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -s h -l help -d 'Print help'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand cat" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l format -d 'Format of the packets' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s n -l count -d 'How many packets' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l skip -d 'Skip this many packets first' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l wait -d 'Give up when nothing comes for this long' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s h -l help -d 'Print help'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand inspect" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l format -d '`spead`: the experiments of SDP memo 046 with SPEAD heaps; otherwise VDIF frames' -r -f -a "auto\t''
vdif\t''
mark5b\t''
fila10g\t''
lofar\t''
spead\t''
ejfat\t''"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l sizes -d 'Datagram sizes; rounded down to what VDIF can have (default for record: 8040)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l time -d 'Seconds of each run' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l rounds -d 'Rounds; the candidates take turns in each' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l rate -d 'Fixed rate (default: closed loop, as fast as nothing is lost)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l candidates -d 'Candidates. receive: bare, skyhaul, recvmmsg, recv, ring; send: bare, skyhaul, sendmmsg, sendto; record: fio, skyhaul, forward (default: all, the ring only with --no-gso)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l address -d 'Address to receive on' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l netns -d 'Network namespaces to send from and to receive in, joined by you, like sky-a,sky-b (needs root)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l cpus -d 'Processors of the sending and the receiving thread' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l memory -d 'Memory that packets are placed into' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l directory -d 'Directory on the disk to measure (record)' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l bytes -d 'Size of each recording (record)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l experiments -d 'Experiments: link, light, receiver, pairs, scaling, limited (default: all but limited)' -r -f -a "link\t'Bare UDP and TCP loops: what the link can do (memo, table 1)'
light\t'Senders alone: default, MTU, buffers, both (table 2)'
receiver\t'Senders against receivers, and the heaps lost (tables 3 and 4)'
pairs\t'Pairs at rising rates, and TCP (figures 2, 3 and 6)'
scaling\t'One to N senders at several rates, and what is missing to N times one (figures 4 and 5)'
limited\t'Receivers with a share of a processor, ours and others: CPU time, and the highest rate at which nothing is lost'"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l heap-size -d 'Payload of a heap' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l pairs -d 'Sender and receiver pairs (pairs, scaling)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l rates -d 'Rates of each sender, like 1Gbps,2Gbps (default: eight steps up to what one sender can do); limited: CPU time is measured at the first (default: 4Gbps)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l interfaces -d 'Addresses to receive on, one for each interface; pairs take turns (default: --address)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l receiver-cpu -d 'Share of its processor for each receiver (limited; default: 50%)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l packet -d 'Bytes of a packet, with its SPEAD header (limited; default: 1472,8972)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l against -d 'Another program that receives, as a line without quotes; {address}, {port}, {packet}, {heap} and {buffer} stand for what it is given (limited; again for each program)' -r
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l report -d 'Write tables, plots and the figures as JSON to this directory' -r -f -a "(__fish_complete_directories)"
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l search -d 'Search the highest rate at which nothing is lost while the sender never waits'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l no-gso -d 'Senders hand packets over one by one instead of in trains'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l json -d 'Print one JSON report on standard output at the end'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -s q -l quiet -d 'Show no progress'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand bench" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -l config -d 'Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else /etc/skyhaul.toml)' -r -F
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -l show-config -d 'Print what is in force and where each value comes from, and do nothing else'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand generate" -s V -l version -d 'Print version'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "demo" -d 'Watch the main job on this machine, with nothing to set up'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "send" -d 'Send a file, a recording, a pattern or noise as packets'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "receive" -d 'Receive streams to nowhere, a file or standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "record" -d 'Record streams onto disks, and send them on'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "ls" -d 'List recordings'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "check" -d 'Prove that a recording is what was acknowledged'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "cat" -d 'Write a recording to standard output'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "inspect" -d 'Show packets of a file, a capture or a live port, field by field'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "bench" -d 'Measure this machine\'s receive, send and record paths beside bare loops'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "generate" -d 'Write man pages or shell completions'
complete -c skyhaul -n "__fish_skyhaul_using_subcommand help; and not __fish_seen_subcommand_from demo send receive record ls check cat inspect bench generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
