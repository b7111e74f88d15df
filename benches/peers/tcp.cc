// Bulk transfers with CUBIC over one link, in ns-3: `tcp --rate=10Mbps --loss=1e-3 --flows=1 --queue=fq_codel
// --seconds=60 --seed=1` prints how many bytes arrived. What it simulates is what `_cubic` and benches/fq_codel.toml say:
// 20 ms each way, 1448 bytes a segment, buffers of 16 MiB.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>

using namespace ns3;

int
main(int argc, char* argv[])
{
    std::string rate = "10Mbps";
    std::string queue = "drop_tail";
    double loss = 0.0;
    double seconds = 60.0;
    uint32_t flows = 1;
    uint32_t seed = 1;
    CommandLine command;
    command.AddValue("rate", "of the link", rate);
    command.AddValue("loss", "probability that a packet to the receiver is lost", loss);
    command.AddValue("flows", "bulk transfers at once", flows);
    command.AddValue("queue", "drop_tail or fq_codel", queue);
    command.AddValue("seconds", "simulated", seconds);
    command.AddValue("seed", "run number of the generator", seed);
    command.Parse(argc, argv);
    RngSeedManager::SetRun(seed);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpCubic"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));

    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue("20ms"));
    // With FQ-CoDel the packets wait there, and the device holds no more than it sends.
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(queue == "fq_codel" ? "1p" : "1000p"));
    NetDeviceContainer devices = link.Install(nodes);
    if (loss > 0.0)
    {
        Ptr<RateErrorModel> losses = CreateObject<RateErrorModel>();
        losses->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        losses->SetRate(loss);
        devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(losses));
    }
    InternetStackHelper().Install(nodes);
    if (queue == "fq_codel")
    {
        TrafficControlHelper control;
        control.SetRootQueueDisc("ns3::FqCoDelQueueDisc");
        control.Install(devices.Get(0));
    }
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    if (queue != "fq_codel")
    {
        // Assigning an address installs FQ-CoDel where nothing is; the device's own queue is meant.
        TrafficControlHelper().Uninstall(devices);
    }

    ApplicationContainer receivers;
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    for (uint32_t flow = 0; flow < flows; ++flow)
    {
        uint16_t port = 5000 + flow;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        receivers.Add(sink.Install(nodes.Get(1)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), port));
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        bulk.Install(nodes.Get(0)).Start(Seconds(flows == 1 ? 0.0 : start->GetValue(0.0, 0.04)));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    uint64_t bytes = 0;
    for (uint32_t flow = 0; flow < flows; ++flow)
    {
        bytes += receivers.Get(flow)->GetObject<PacketSink>()->GetTotalRx();
    }
    std::cout << bytes << std::endl;
    Simulator::Destroy();
    return 0;
}
